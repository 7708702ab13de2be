"""``mnn-farm models check`` with an ONNX model on one side: it is the reference, run by ONNX Runtime."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.check_text import output_as_json, output_as_text, percent
from harness.commands.output import print_json, say
from harness.core.errors import ConfigError

if TYPE_CHECKING:
    from harness.payload.accuracy import Kept
    from harness.payload.onnx_check import Checked

_RANDOM = "random inputs say little of what is kept: give real ones with --samples DIR"
_ROUNDING = "look at the worst place; where the app can live with it, say so with a larger --tolerance, e.g. 1e-3"
_UNEXPLAINED = (
    "no usual mistake (channel order, layout, mean and scale, type) explains it: look at convert.log, convert with the "
    "newest MNN, or report it to MNN with both models"
)


def is_onnx(path: Path) -> bool:
    """Whether a side is an ONNX model, by its name."""
    return path.suffix.lower() == ".onnx"


def check_onnx(
    first: Path,
    second: Path,
    inputs: Path | None,
    samples: Path | None,
    seed: int | None,
    tolerance: float,
    precision: str,
    as_json: bool,
) -> bool:
    """Compare, tell, and return whether all is well.

    Raises:
        ConfigError: wrong usage.
        ModelRunError: a model cannot be loaded.
    """
    from harness.payload.onnx_check import check_against_onnx, samples_for
    from harness.payload.tensor_files import read_tensors

    reference, doubted = (first, second) if is_onnx(first) else (second, first)
    if is_onnx(doubted):
        raise ConfigError("both sides are ONNX models", remedy="give the .mnn model, or outputs that a phone made")
    if doubted.suffix.lower() == ".npz" and (inputs is None or samples is not None):
        remedy = "give the input that they were made from: --input FILE.npz"
        raise ConfigError("captured outputs are compared with a model", remedy=remedy)
    given = None if inputs is None else read_tensors(inputs)
    fed, source = samples_for(reference, given, samples, seed or 0)
    checked = check_against_onnx(doubted, reference, fed, tolerance, precision)
    if as_json:
        print_json(_json(checked, reference, doubted, source, tolerance))
    else:
        _tell(checked, reference, doubted, source, tolerance)
    return checked.ok


def _findings(checked: Checked, source: str) -> list[dict[str, str]]:
    found = []
    if checked.problem:
        fix = "see the cause below" if checked.cause is not None else "give inputs that both models take"
        found.append({"code": "not_run", "severity": "error", "detail": checked.problem, "fix": fix})
    if checked.cause is not None:
        found.append(checked.cause.to_json())
    elif not checked.ok and checked.rounded:
        detail = f"the outputs differ on {checked.sample} by rounding only, which a steep layer enlarges"
        found.append({"code": "rounding", "severity": "error", "detail": detail, "fix": _ROUNDING})
    elif not checked.ok and not checked.problem:
        detail = f"the outputs differ on {checked.sample}"
        found.append({"code": "unexplained", "severity": "error", "detail": detail, "fix": _UNEXPLAINED})
    if source == "random" and _by_accuracy(checked):
        detail = f"accuracy was measured on {checked.samples} random input"
        found.append({"code": "inputs_random", "severity": "warning", "detail": detail, "fix": _RANDOM})
    return found


def _by_accuracy(checked: Checked) -> bool:
    return checked.weights.value != "fp32"


def _json(checked: Checked, reference: Path, doubted: Path, source: str, tolerance: float) -> dict[str, Any]:
    outputs = () if checked.comparison is None else checked.comparison.outputs
    return {
        "ok": checked.ok,
        "judged_by": "accuracy" if _by_accuracy(checked) else "tolerance",
        "tolerance": tolerance,
        "reference": str(reference),
        "checked": str(doubted),
        "weights": checked.weights.value,
        "inputs": source,
        "samples": checked.samples,
        "sample": checked.sample,
        "outputs": [output_as_json(output) for output in outputs],
        "accuracy": [{**asdict(kept), "no_top1": kept.no_top1 or None} for kept in checked.kept],
        "findings": _findings(checked, source),
    }


def _tell(checked: Checked, reference: Path, doubted: Path, source: str, tolerance: float) -> None:
    say(f"{doubted}, weights {checked.weights.value}, against {reference}, run by ONNX Runtime")
    say(f"on {checked.sample}{f', the worst of {checked.samples} samples' if checked.samples > 1 else ''}:")
    for output in () if checked.comparison is None else checked.comparison.outputs:
        say(output_as_text(output))
    if _by_accuracy(checked) or checked.samples > 1:
        say(f"accuracy kept over {checked.samples} {'sample' if checked.samples == 1 else 'samples'}:")
        for kept in checked.kept:
            say(_kept_text(kept))
    for finding in _findings(checked, source):
        say(f"{finding['severity']}: {finding['code']}: {finding['detail']} ({finding['fix']})")
    if _by_accuracy(checked):
        says = "as near as such weights are" if checked.ok else "LESS THAN such weights keep"
        say(f"{says}; whether that is enough the app's own test has to say")
    else:
        says = "agree" if checked.ok else "DIFFER"
        say(f"{says}: allowed is {tolerance:g} × max(1, |{reference.name}|) for each element")


def _kept_text(kept: Kept) -> str:
    parts = []
    if kept.same_top1 is not None and kept.same_positions is not None:
        usable = kept.samples - kept.failed
        parts.append(f"same top-1 in {percent(round(kept.same_top1 * usable), usable)} of samples")
        parts.append(f"{100 * kept.same_positions:.2f} % of decisions")
    else:
        parts.append(f"no top-1: {kept.no_top1}")
    if kept.cosine_mean is not None:
        parts.append(f"cosine similarity {kept.cosine_mean:.5f} (least {kept.cosine_min:.5f})")
    if kept.max_error is not None:
        parts.append(f"max error {kept.max_error:.3g}, mean {kept.mean_error:.3g}")
    if kept.failed:
        parts.append(f"{kept.failed} samples could not be compared")
    return f"  {kept.name}: {'; '.join(parts)}"
