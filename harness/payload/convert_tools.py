"""MNN's converter and offline quantiser, each in a process of its own, and what their logs say."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from harness.core.errors import ConfigError, HostError
from harness.payload.onnx_findings import Finding
from harness.payload.samples import Sample

_PROGRAM = "harness.payload._convert_model"
_UNSUPPORTED = re.compile(r"These Op Not Support:(.*)")
_TINY = re.compile(r"caution: some weight absolute values are not zero and smaller than float min.*op name:(.*)")
#: What a line has that says why; progress, versions and addresses in the source have not.
_COMPLAINT = re.compile(r"error|fail|invalid|can't|cannot|not support|check it out", re.IGNORECASE)
_PREFIX = re.compile(r"^\[[\d:]+\] [@:]?\s?:?\d+: |^\[ERROR\] ")
_EXPORT_OTHERWISE = "export the model with another opset_version or after onnxsim, or report it to MNN with convert.log"


@dataclass(frozen=True)
class ToolRun:
    """What became of a tool: its log, how it ended (a signal is negative), or that it did not."""

    log: str
    status: int | None


def run_tool(argv: Sequence[str], cwd: Path, timeout_s: float) -> ToolRun:
    """Run ``mnnconvert`` or ``mnnquant``, the first word.

    Raises:
        HostError: the process cannot be started.
    """
    whole = [sys.executable, "-m", _PROGRAM, *argv]
    try:
        done = subprocess.run(
            whole,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return ToolRun((error.stdout or b"").decode("utf-8", "replace"), None)
    except OSError as error:
        raise HostError(f"{whole[0]} cannot be run ({error.strerror})") from error
    return ToolRun(done.stdout.decode("utf-8", "replace"), done.returncode)


def findings_of(run: ToolRun, tool: str, made: Path) -> list[Finding]:
    """Return what a run's log and end say; no error among them means that ``made`` is there."""
    found = []
    unsupported = _UNSUPPORTED.search(run.log)
    if unsupported is not None:
        names = sorted(
            {name.strip().removeprefix("ONNX::") for name in re.split(r"[|,\s]+", unsupported[1]) if name.strip()}
        )
        detail = f"MNN's converter does not know {', '.join(names)}"
        fix = "export the model without it: build it of others, leave that part to the app, or lower opset_version"
        found.append(Finding("op_unsupported", detail, fix))
    tiny = sorted({match[1].strip() for match in _TINY.finditer(run.log)})
    if tiny:
        detail = f"weights smaller than 1.2e-38 became 0 in {', '.join(tiny)}"
        found.append(Finding("weights_tiny", detail, "nothing: such numbers are slow on phones and change no result"))
    if run.status is None:
        found.append(
            Finding("converter_slow", f"{tool} did not end in time", "give it a smaller model or a faster computer")
        )
    elif run.status < 0:
        name = signal.Signals(-run.status).name
        said = _last_complaint(run.log)
        found.append(Finding("converter_crashed", f"{tool} crashed ({name}){said}", _EXPORT_OTHERWISE))
    elif unsupported is None and (not made.is_file() or not made.stat().st_size):
        detail = f"{tool} wrote no model{_last_complaint(run.log)}"
        found.append(Finding("converter_failed", detail, _EXPORT_OTHERWISE))
    return found


def _last_complaint(log: str) -> str:
    lines = [_PREFIX.sub("", line.strip()) for line in log.splitlines() if _COMPLAINT.search(line)]
    return f'; it said: "{lines[0][:200]}"' if lines else ""


def write_calibration(samples: Sequence[Sample], outputs: Sequence[str], folder: Path) -> Path:
    """Write samples as ``mnnquant`` reads them, and return its configuration.

    Each sample becomes a folder with its shapes (``input.json``) and the numbers of each input as text.

    Raises:
        ConfigError: an input's name cannot be the name of a file.
        OSError: the disk refuses.
    """
    data = folder / "samples"
    for index, sample in enumerate(samples):
        place = data / f"{index:06}"
        place.mkdir(parents=True)
        shapes = [{"name": name, "shape": list(array.shape)} for name, array in sample.inputs.items()]
        described: dict[str, Any] = {"inputs": shapes, "outputs": list(outputs)}
        (place / "input.json").write_text(json.dumps(described), encoding="utf-8")
        for name, array in sample.inputs.items():
            if ".." in PurePosixPath(name).parts:
                raise ConfigError(f"input {name!r} leads out of a folder", remedy="rename it in the model")
            file = place / f"{name.lstrip('/')}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savetxt(file, array.astype(np.float64).ravel(), fmt="%.9g")
    config = {
        "path": f"{data}/",
        "input_type": "sequence",
        "used_sample_num": len(samples),
        "batch_size": 1,
        "quant_bits": 8,
        "feature_quantize_method": "KL",
        "weight_quantize_method": "MAX_ABS",
        # Of images; read even where none are given.
        "format": "RGB",
        "mean": [0.0, 0.0, 0.0],
        "normal": [1.0, 1.0, 1.0],
        "width": 1,
        "height": 1,
    }
    path = folder / "quantize.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
