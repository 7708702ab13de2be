"""``mnn-farm models check``: do two models, or a model and captured outputs, agree element by element?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.commands.check_onnx import check_onnx, is_onnx
from harness.commands.check_text import output_as_json, output_as_text
from harness.commands.output import Json, print_json, say
from harness.core.errors import ConfigError, FarmError, ModelRunError

if TYPE_CHECKING:  # numpy comes with them, and no other verb should wait for it
    from collections.abc import Mapping

    from harness.payload.tensors import Array, Comparison

EPILOG = "Example: mnn-farm models check detector.onnx detector.mnn --samples photos/"
_REMEDY_OPEN = "give both sides the input that the outputs were made from: --input FILE.npz, or --seed N"


def check(
    first: Annotated[
        Path, typer.Argument(metavar="FIRST", help="A .mnn model, or an .npz of outputs, e.g. captured on a phone.")
    ],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="The reference: likewise. An .onnx model is it on either side.")
    ],
    inputs: Annotated[
        Path | None, typer.Option("--input", metavar="X.npz", help="Inputs by name, as numpy.savez writes them.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            "--samples", metavar="DIR", help="A folder of real inputs (.npz), to compare with an .onnx model."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random inputs instead (default: 0).")] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, help="An element may differ by this × max(1, |SECOND|).")
    ] = 1e-4,
    precision: Annotated[
        Literal["low", "normal", "high"],
        typer.Option("--precision", help="At which FIRST is run; SECOND, the reference, is always run at high."),
    ] = "high",
    as_json: Json = False,
) -> None:
    """Compare the outputs of two models element by element. Models run on this computer's CPU, on the same inputs.

    With an .onnx model, run by ONNX Runtime, the cause of a difference is looked for by trying it: channel order,
    layout, mean and scale, type. Weights of fewer bits are judged by the accuracy that they keep, not by --tolerance.

    Exit status 0: all agree; 1: they differ, or the engine cannot run one; 2: wrong usage.
    """
    _check_usage(inputs, samples, seed, tolerance)
    try:
        if is_onnx(first) or is_onnx(second):
            ok = check_onnx(first, second, inputs, samples, seed, tolerance, precision, as_json)
            raise typer.Exit(0 if ok else 1)
        if samples is not None:
            raise ConfigError("--samples compares with an .onnx model", remedy="give one, or --input FILE.npz")
        answer, comparison = _compare(first, second, inputs, seed, tolerance, precision)
    except ModelRunError as error:
        _tell_failure(error, as_json)
        raise typer.Exit(1) from None
    if as_json:
        print_json({**answer, "outputs": [output_as_json(output) for output in comparison.outputs]})
    else:
        for side in ("first", "second"):
            say(f"{side}: {_side_text(answer[side])}")
        for output in comparison.outputs:
            say(output_as_text(output))
        verdict = "agree" if comparison.ok else "DIFFER"
        say(f"{verdict}: allowed is {tolerance:g} × max(1, |second|) for each element")
    raise typer.Exit(0 if comparison.ok else 1)


def _check_usage(inputs: Path | None, samples: Path | None, seed: int | None, tolerance: float) -> None:
    given = [
        name for name, value in (("--input", inputs), ("--samples", samples), ("--seed", seed)) if value is not None
    ]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are ways to say the same", remedy="give one of them")
    if not math.isfinite(tolerance):
        raise ConfigError(f"a tolerance of {tolerance} makes no sense", remedy="give a number, e.g. 1e-4")


def _compare(
    first: Path, second: Path, inputs: Path | None, seed: int | None, tolerance: float, precision: str
) -> tuple[dict[str, Any], Comparison]:
    from harness.payload.tensor_files import read_tensors
    from harness.payload.tensors import compare

    models = [path for path in (first, second) if _is_model(path)]
    given = inputs is not None or seed is not None
    if not models and given:
        raise ConfigError("neither side is a model, so nothing is run", remedy="leave --input and --seed out")
    if len(models) == 1 and not given:
        raise ConfigError("a model is compared with captured outputs", remedy=_REMEDY_OPEN)
    fed: Mapping[str, Array] | None = read_tensors(inputs) if inputs is not None else None
    # The same arrays for both: random ones are made once, for the first model that is run.
    facts_first, made_first, fed = _outputs(first, fed, seed or 0, precision)
    facts_second, made_second, _ = _outputs(second, fed, seed or 0, "high")
    comparison = compare(made_first, made_second, tolerance)
    return {"ok": comparison.ok, "tolerance": tolerance, "first": facts_first, "second": facts_second}, comparison


def _is_model(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".mnn", ".npz"):
        raise ConfigError(f"{path} is neither a .mnn model nor an .npz file of outputs", remedy="check the name")
    return suffix == ".mnn"


def _outputs(
    path: Path, fed: Mapping[str, Array] | None, seed: int, precision: str
) -> tuple[dict[str, Any], Mapping[str, Array], Mapping[str, Array] | None]:
    """Return facts and outputs of one side, and the inputs that the other side is to be given."""
    from harness.payload.tensor_files import read_tensors
    from harness.payload.tensor_run import RunOptions, run_model

    if not _is_model(path):
        return {"path": str(path), "kind": "outputs"}, read_tensors(path), fed
    run = run_model(path, fed, seed=seed, options=RunOptions(precision=precision))
    facts = {
        "path": str(path),
        "kind": "model",
        "engine": run.engine,
        "backend": run.backend,
        "backend_code": run.backend_code,
        "precision": precision,
        "inputs": {name: list(array.shape) for name, array in run.inputs.items()},
    }
    return facts, run.outputs, run.inputs if fed is None else fed


def _side_text(side: dict[str, Any]) -> str:
    if side["kind"] == "outputs":
        return f"{side['path']}, captured outputs"
    return f"{side['path']}, run by MNN {side['engine']} on {side['backend']}, precision {side['precision']}"


def _tell_failure(error: FarmError, as_json: bool) -> None:
    if as_json:
        problem = {"code": error.reason.code, "detail": error.message, "fix": error.remedy}
        print_json({"ok": False, "problem": problem, "outputs": []})
    else:
        say(str(error))
