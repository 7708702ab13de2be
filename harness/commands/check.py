"""``mnn-farm models check``: do two models, or a model and captured outputs, agree element by element?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.commands.output import Json, print_json, say
from harness.core.errors import ConfigError, FarmError, ModelRunError

if TYPE_CHECKING:  # numpy comes with them, and no other verb should wait for it
    from collections.abc import Mapping

    from harness.payload.tensors import Array, Comparison, OutputComparison

EPILOG = "Example: mnn-farm models check fp16.mnn fp32.mnn --input photo.npz"
_REMEDY_OPEN = "give both sides the input that the outputs were made from: --input FILE.npz, or --seed N"


def check(
    first: Annotated[
        Path, typer.Argument(metavar="FIRST", help="A .mnn model, or an .npz of outputs, e.g. captured on a phone.")
    ],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="The reference: likewise.")],
    inputs: Annotated[
        Path | None, typer.Option("--input", metavar="X.npz", help="Inputs by name, as numpy.savez writes them.")
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

    Exit status 0: all agree; 1: they differ, or the engine cannot run one; 2: wrong usage.
    """
    try:
        answer, comparison = _compare(first, second, inputs, seed, tolerance, precision)
    except ModelRunError as error:
        _tell_failure(error, as_json)
        raise typer.Exit(1) from None
    if as_json:
        print_json({**answer, "outputs": [_as_json(output) for output in comparison.outputs]})
    else:
        for side in ("first", "second"):
            say(f"{side}: {_side_text(answer[side])}")
        for output in comparison.outputs:
            say(_as_text(output))
        verdict = "agree" if comparison.ok else "DIFFER"
        say(f"{verdict}: allowed is {tolerance:g} × max(1, |second|) for each element")
    raise typer.Exit(0 if comparison.ok else 1)


def _compare(
    first: Path, second: Path, inputs: Path | None, seed: int | None, tolerance: float, precision: str
) -> tuple[dict[str, Any], Comparison]:
    from harness.payload.tensor_files import read_tensors
    from harness.payload.tensors import compare

    models = [path for path in (first, second) if _is_model(path)]
    given = inputs is not None or seed is not None
    if inputs is not None and seed is not None:
        raise ConfigError("--input and --seed are two ways to say the same", remedy="give one of them")
    if not models and given:
        raise ConfigError("neither side is a model, so nothing is run", remedy="leave --input and --seed out")
    if len(models) == 1 and not given:
        raise ConfigError("a model is compared with captured outputs", remedy=_REMEDY_OPEN)
    if not math.isfinite(tolerance):
        raise ConfigError(f"a tolerance of {tolerance} makes no sense", remedy="give a number, e.g. 1e-4")
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


def _as_text(output: OutputComparison) -> str:
    from harness.payload.tensors import shape_text

    if output.problem:
        return f"  {output.name}: {output.problem}"
    text = f"  {output.name} ({shape_text(output.shape or ())}): "
    if not output.count:
        return f"{text}empty on both sides"
    if output.max_error is not None and output.max_error_at is not None:
        text += f"max error {output.max_error:.3g} at {_index_text(output.max_error_at)}, "
        text += f"mean error {output.mean_error:.3g}, "
    text += f"{output.agreeing} of {output.count} elements agree ({_percent(output.agreeing, output.count)})"
    if output.worst is not None:
        worst = output.worst
        text += f"; worst at {_index_text(worst.index)}: {worst.first:.7g} against {worst.second:.7g}"
    if output.mismatched_non_finite:
        text += f"; in {output.mismatched_non_finite} a NaN or infinity stands against something else"
    if output.same_non_finite:
        text += f"; {output.same_non_finite} are the same NaN or infinity on both sides"
    return text


def _index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(str(part) for part in index)}]"


def _percent(agreeing: int, count: int) -> str:
    """Return a share that is not rounded up to all nor down to none."""
    if 0 < agreeing < count:
        return f"{min(max(100 * agreeing / count, 0.01), 99.99):.2f} %"
    return "100 %" if agreeing else "0 %"


def _as_json(output: OutputComparison) -> dict[str, Any]:
    worst = output.worst
    return {
        "name": output.name,
        "ok": output.ok,
        "problem": output.problem or None,
        "shape": None if output.shape is None else list(output.shape),
        "count": output.count,
        "agreeing": output.agreeing,
        "share": output.share,
        "max_error": _number(output.max_error),
        "max_error_at": None if output.max_error_at is None else list(output.max_error_at),
        "mean_error": _number(output.mean_error),
        "worst": worst and {"at": list(worst.index), "first": _number(worst.first), "second": _number(worst.second)},
        "same_non_finite": output.same_non_finite,
        "mismatched_non_finite": output.mismatched_non_finite,
    }


def _number(value: float | None) -> float | str | None:
    """Return a number for JSON, which has none for NaN and the infinities: those become their names."""
    return value if value is None or math.isfinite(value) else str(value)


def _tell_failure(error: FarmError, as_json: bool) -> None:
    if as_json:
        problem = {"code": error.reason.code, "detail": error.message, "fix": error.remedy}
        print_json({"ok": False, "problem": problem, "outputs": []})
    else:
        say(str(error))
