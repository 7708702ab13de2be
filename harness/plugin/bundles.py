"""The two builds of ``--ab``, which take turns on each phone."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle, read_bundle
from harness.payload.bundles_place import find_bundle
from harness.payload.chosen import used_by
from harness.plan.model import Plan
from harness.store.head import RunInfo

# Two rounds of four turns leave enough to tell the turns' own spread, which one round does not.
DEFAULT_ROUNDS = 2
MOST_ROUNDS = 50


@dataclass(frozen=True)
class TwoBuilds:
    """What ``--ab`` asks for: two builds that take turns, in so many rounds of four."""

    a: Bundle
    b: Bundle
    rounds: int


def two_builds_of(ab: str | None, rounds: str | None, head: RunInfo | None, plan: Plan) -> TwoBuilds | None:
    """Return the builds of ``--ab``, else those of the run that ``head`` began; ``None`` where one build is measured.

    The same build twice is allowed: it shows what a comparison makes of no change at all.

    Raises:
        ConfigError: it does not name two, one cannot be used, or the run was begun otherwise.
    """
    begun = head.ab if head is not None else None
    number = _rounds(rounds, begun.rounds if begun is not None else None)
    if ab is None and begun is None:
        if rounds is not None:
            raise ConfigError("--ab-rounds means nothing without --ab", remedy="say which builds: --ab A,B")
        return None
    if head is not None and begun is None:
        raise ConfigError("--ab: this run was begun with one build", remedy="begin a new run folder")
    if ab is not None:
        names = [name.strip() for name in ab.split(",")]
        if len(names) != 2 or not all(names):
            raise ConfigError(f"--ab {ab}: it takes two builds", remedy="name two bundles: --ab old,new")
    elif head is not None and begun is not None and head.bundle is not None:
        names = [head.bundle.folder, begun.bundle.folder]
    else:
        raise ConfigError("the run's head does not name both builds", remedy="name them: --ab old,new")
    a, b = (used_by(read_bundle(find_bundle(name)), plan) for name in names)
    if a.runner != b.runner:
        raise ConfigError(
            f"--ab: {a.manifest.name} is used by {a.runner}, {b.manifest.name} by {b.runner}; they measure differently",
            remedy="choose one with --runner",
        )
    return TwoBuilds(a, b, number)


def _rounds(text: str | None, begun: int | None) -> int:
    if text is None:
        return begun if begun is not None else DEFAULT_ROUNDS
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_ROUNDS):
        raise ConfigError(f"--ab-rounds {text}: it is a whole number from 1 to {MOST_ROUNDS}")
    if begun is not None and int(text) != begun:
        raise ConfigError(f"--ab-rounds {text}: this run was begun with {begun}", remedy="leave it out")
    return int(text)
