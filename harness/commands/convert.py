"""``mnn-farm models convert``: an ONNX model becomes an MNN model, with a log and a record beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.commands.output import Json, print_json, say
from harness.core.errors import ConfigError

if TYPE_CHECKING:  # numpy comes with them, and no other verb should wait for it
    from harness.payload.convert import Conversion
    from harness.payload.mnn_weights import Weights

EPILOG = "Example: mnn-farm models convert detector.onnx -o models/detector-fp16 --fp16"


def convert(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The model, as the training framework wrote it.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Where it goes; each variant has a folder of its own.")
    ],
    fp16: Annotated[bool, typer.Option("--fp16", help="Store weights in half precision: half the size.")] = False,
    weight_bits: Annotated[
        Literal["8", "4"] | None, typer.Option("--weight-bits", help="Store weights in so many bits.")
    ] = None,
    quantize: Annotated[
        Path | None,
        typer.Option(
            "--quantize", metavar="DIR", help="Quantise activations too, by this folder of real inputs (.npz)."
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples", metavar="DIR", help="Keep these real inputs (.npz) and ONNX Runtime's outputs beside it."
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Calibrate even with samples that are few, all alike or random.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Convert an ONNX model to MNN with the converter of the MNN package, and say what to watch out for.

    Exit status 0: there is a model; 1: there is none, and a finding says why; 2: wrong usage.
    """
    from harness.payload.convert import ConvertOptions, convert_model

    options = ConvertOptions(_weights(fp16, weight_bits, quantize), quantize, anyway, samples)
    if anyway and quantize is None:
        raise ConfigError("--anyway is about calibration samples", remedy="leave it out, or give --quantize DIR")
    made = convert_model(model, out, options)
    if as_json:
        problems = [finding.to_json() for finding in made.findings]
        print_json({"ok": made.ok, "problems": problems, "facts": _facts(made)})
    else:
        _tell(made, out)
    raise typer.Exit(0 if made.ok else 1)


def _weights(fp16: bool, weight_bits: str | None, quantize: Path | None) -> Weights:
    from harness.payload.mnn_weights import Weights

    asked = [
        weights
        for given, weights in (
            (fp16, Weights.HALF),
            (weight_bits == "8", Weights.INT8),
            (weight_bits == "4", Weights.INT4),
            (quantize is not None, Weights.CALIBRATED),
        )
        if given
    ]
    if len(asked) > 1:
        raise ConfigError(
            "--fp16, --weight-bits and --quantize are different ways to store the same weights",
            remedy="give one, and make one folder for each variant",
        )
    return asked[0] if asked else Weights.FULL


def _facts(made: Conversion) -> dict[str, Any]:
    if made.record is None:
        return {}
    return {
        "path": str(made.model),
        **{key: made.record[key] for key in made.record if key not in ("schema", "findings")},
    }


def _tell(made: Conversion, out: Path) -> None:
    from harness.payload.tensors import shape_text

    for finding in made.findings:
        say(f"{finding.severity}: {finding.code}: {finding.detail} ({finding.fix})")
    record = made.record
    if record is None:
        log = out / "convert.log"
        say(f"not converted{f'; what the converter printed is in {log}' if log.is_file() else ''}")
        return
    before, after = record["source"]["bytes"], record["model"]["bytes"]
    say(f"{made.model}: {after} bytes, {100 * after / before:.0f} % of the {before} of {record['source']['file']}")
    say(f"weights: {record['weights']}; written by MNN {record['converter']['version']}; api: {record['api']}")
    for word in ("inputs", "outputs"):
        for value in record[word]:
            shape = None if value["shape"] is None else tuple(-1 if e is None else e for e in value["shape"])
            size = "of unknown shape" if shape is None else shape_text(shape)
            say(f"{word[:-1]} {value['name']}: {value['dtype']} {size}")
