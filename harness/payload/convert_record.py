"""``convert.json``: what a converted model is, beside it, for checks, for phones and for whoever finds it later.

It holds no time and no path of this computer, so that the same conversion gives the same text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError
from harness.payload.hashes import sha256_of
from harness.payload.mnn_weights import Weights
from harness.payload.onnx_file import OnnxModel, Value
from harness.payload.onnx_findings import ENGINE_DTYPES, Finding

SCHEMA = 1
NAME = "convert.json"
_REMEDY = "convert the model again"


@dataclass(frozen=True)
class ConvertRecord:
    """What ``convert.json`` tells of a model.

    Attributes:
        model: the file's name, beside the record.
        sha256: of the model.
        weights: how they are stored.
        api: ``session``, or ``module`` where only MNN's Module API can run it.
        engine_needed: the oldest MNN that knows all that is in it, ``None`` where nothing special is.
        converter: the version of MNN that wrote it.
        value: the whole record.
    """

    model: str
    sha256: str
    weights: Weights
    api: str
    engine_needed: str | None
    converter: str | None
    value: dict[str, Any]


def record_of(
    source: Path,
    read: OnnxModel,
    made: Path,
    *,
    weights: Weights,
    api: str,
    engine_needed: str | None,
    converter: str | None,
    options: Sequence[str],
    calibration: dict[str, Any] | None,
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """Return the record of a conversion.

    Raises:
        OSError: a file cannot be read.
    """
    return {
        "schema": SCHEMA,
        "model": {"file": made.name, "bytes": made.stat().st_size, "sha256": sha256_of(made)},
        "source": {
            "file": source.name,
            "bytes": source_bytes(source, read),
            "sha256": sha256_of(source),
            "external": {
                name: sha256_of(source.parent / name) for name in sorted({piece.location for piece in read.external})
            },
            "ir_version": read.ir_version,
            "opset": read.opset,
            "producer": read.producer or None,
        },
        "weights": weights.value,
        "api": api,
        "converter": {"name": "MNN", "version": converter, "options": list(options)},
        "engine_needed": engine_needed,
        "inputs": [_value(value) for value in read.inputs],
        "outputs": [_value(value) for value in read.outputs],
        "calibration": calibration,
        "findings": [finding.to_json() for finding in findings],
    }


def source_bytes(source: Path, read: OnnxModel) -> int:
    """Return how many bytes an ONNX model has, with its external weights."""
    files = {source, *(source.parent / piece.location for piece in read.external)}
    return sum(file.stat().st_size for file in files)


def _value(value: Value) -> dict[str, Any]:
    """Return a value; an open dimension is ``null``, and so is a shape that the model does not tell."""
    shape = None if value.shape is None else [extent if extent >= 0 else None for extent in value.shape]
    engine = ENGINE_DTYPES.get(value.dtype)
    return {"name": value.name, "shape": shape, "dtype": value.dtype, "engine_dtype": engine}


def read_record(model: Path) -> ConvertRecord | None:
    """Return the record beside a model, ``None`` where there is none or it is another model's.

    Raises:
        ConfigError: there is one and it cannot be read.
    """
    path = model.with_name(NAME)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["schema"] != SCHEMA:
            raise ValueError(f"schema {value['schema']} instead of {SCHEMA}")
        record = ConvertRecord(
            model=str(value["model"]["file"]),
            sha256=str(value["model"]["sha256"]),
            weights=Weights(value["weights"]),
            api=str(value["api"]),
            engine_needed=value["engine_needed"],
            converter=value["converter"]["version"],
            value=value,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error})", remedy=_REMEDY) from error
    return record if record.model == model.name and record.sha256 == sha256_of(model) else None
