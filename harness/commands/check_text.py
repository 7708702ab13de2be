"""One compared output of ``mnn-farm models check``, as text and for JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy comes with it, and no other verb should wait for it
    from harness.payload.tensors import OutputComparison


def output_as_text(output: OutputComparison) -> str:
    """Return one compared output in a line."""
    from harness.payload.tensors import shape_text

    if output.problem:
        return f"  {output.name}: {output.problem}"
    text = f"  {output.name} ({shape_text(output.shape or ())}): "
    if not output.count:
        return f"{text}empty on both sides"
    if output.max_error is not None and output.max_error_at is not None:
        text += f"max error {output.max_error:.3g} at {_index_text(output.max_error_at)}, "
        text += f"mean error {output.mean_error:.3g}, "
    text += f"{output.agreeing} of {output.count} elements agree ({percent(output.agreeing, output.count)})"
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


def percent(agreeing: int, count: int) -> str:
    """Return a share that is not rounded up to all nor down to none."""
    if 0 < agreeing < count:
        return f"{min(max(100 * agreeing / count, 0.01), 99.99):.2f} %"
    return "100 %" if agreeing else "0 %"


def output_as_json(output: OutputComparison) -> dict[str, Any]:
    """Return one compared output for JSON."""
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
