"""Climbs: one rung after the other until one breaks, which is the layer. Knows nothing of phones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.core.errors import ConfigError, FarmError, HarnessError, HostError
from harness.core.reasons import Reason
from harness.diagnose.rung import Outcome, Rung, State, Step, broke_by

Began = Callable[[Rung], None]
Ended = Callable[[Rung, Outcome], None]


@dataclass(frozen=True)
class Climb:
    """How far it went: every rung that was tried, in order, and those that were not."""

    tried: tuple[tuple[Rung, Outcome], ...]
    left: tuple[Rung, ...] = ()

    @property
    def broken(self) -> tuple[Rung, Outcome] | None:
        """The layer that broke: the first rung that did.

        What the phone or the build does not have is the layer only where nothing really broke.
        """
        broken = [(rung, outcome) for rung, outcome in self.tried if outcome.state is State.BROKE]
        real = [one for one in broken if not stays(*one)]
        return next(iter(real or broken), None)


def stays(rung: Rung, outcome: Outcome) -> bool:
    """Whether a rung that broke is no reason to stop: a GPU that is not there takes nothing from the CPU."""
    return rung.name in ("opencl", "vulkan") and outcome.is_absence


def climb(
    steps: Sequence[Step],
    began: Began = lambda _: None,
    ended: Ended = lambda *_: None,
    clock: Callable[[], float] = time.monotonic,
) -> Climb:
    """Try one rung after the other. The first that breaks is the last, but for those that stand beside it.

    Raises:
        HarnessError, HostError: it cannot be gone on for a reason of ours or of this computer.
    """
    tried: list[tuple[Rung, Outcome]] = []
    stopped = False
    for place, step in enumerate(steps):
        if stopped and not step.sibling:
            return Climb(tuple(tried), tuple(later.rung for later in steps[place:]))
        began(step.rung)
        at = clock()
        outcome = replace(_try(step), seconds=round(clock() - at, 3))
        ended(step.rung, outcome)
        tried.append((step.rung, outcome))
        stopped = stopped or (outcome.state is State.BROKE and not stays(step.rung, outcome))
    return Climb(tuple(tried))


def _try(step: Step) -> Outcome:
    try:
        return step.test()
    except (HarnessError, HostError):
        raise
    except ConfigError as error:
        if error.reason is Reason.BAD_PLAN:  # what was asked for makes no sense: usage, not a layer
            raise
        return broke_by(error)
    except FarmError as error:
        return broke_by(error)
