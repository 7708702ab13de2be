"""Rules about the outputs of MNN's tools for single models, as far as no other tool has what they look at. Pure."""

from __future__ import annotations

from harness.bench.evidence import Objection
from harness.bench.figures import Figure
from harness.bench.scene import Scene
from harness.core.reasons import Reason

# They time each run in whole microseconds.
_TICK_MS = 0.001
_FEWEST_TICKS = 10


def something_was_run(scene: Scene) -> Objection | None:
    """The tool was asked for at least one run, of a model that is there."""
    if scene.tools.loops == 0 or scene.asked.repeats == 0:
        return Objection(Reason.BAD_PLAN, "no run was asked for: the number of loops is 0")
    if scene.tools.benchmark and not scene.figures and not scene.unread and scene.asked.exit_code == 0:
        return Objection(Reason.BAD_PLAN, "the folder of models is empty: it ended well and has a row for none")
    return None


def outputs_are_equal(figure: Figure, scene: Scene) -> Objection | None:
    """A comparison of outputs found no difference and left nothing out."""
    if figure.phase not in ("comparison", "latency") or not scene.tools.differing:
        return None
    differ = len(scene.tools.differing)
    counted = "1 tensor differs or was" if differ == 1 else f"{differ} tensors differ or were"
    return Objection(Reason.OUTPUT_WRONG, f"{counted} not compared", scene.tools.differing[0])


def clock_is_fine_enough(figure: Figure, scene: Scene) -> Objection | None:
    """A run takes long enough for the tool's clock, which counts whole microseconds."""
    if figure.phase != "latency" or figure.limits is None or figure.limits[0] >= _FEWEST_TICKS * _TICK_MS:
        return None
    detail = f"the fastest run took {figure.limits[0] / _TICK_MS:.0f} µs, and the tool's clock counts whole ones"
    return Objection(Reason.NOISY, detail, figure.evidence)
