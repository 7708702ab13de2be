"""Finds the nearest settings that work, by bisection over what can be varied. Pure but for the trial itself.

Along each axis the other end is tried first: if that fails, the axis is no help. If it works, the border between what
fails and what works is found by halving, on the assumption that there is one border. Where no axis helps by itself, all
are changed at once, and then changed back one by one as long as it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.reasons import Reason
from harness.diagnose.setting import Setting

LEVELS = ("low", "normal", "high")
# A border is told to a sixteenth: every step more doubles nothing but the time.
_STEPS = 16
# What helped most often against a kind of failure comes first.
_ORDER: Mapping[Reason, tuple[str, ...]] = {
    Reason.OUT_OF_MEMORY: ("use_mmap", "prompt_tokens", "memory", "threads", "backend", "precision"),
    Reason.OUTPUT_WRONG: ("threads", "precision", "memory", "backend", "use_mmap", "prompt_tokens"),
    Reason.OUTPUT_DEGENERATE: ("threads", "precision", "memory", "backend", "use_mmap", "prompt_tokens"),
}
_USUAL = ("prompt_tokens", "threads", "backend", "precision", "memory", "use_mmap")
ENOUGH = 2


@dataclass(frozen=True)
class Axis:
    """Values of one field, from the one that fails to the one that is farthest from it."""

    name: str
    values: tuple[Any, ...]

    def at(self, setting: Setting, place: int) -> Setting:
        """Return a setting with this axis at that place."""
        return replace(setting, **{self.name: self.values[place]})


@dataclass(frozen=True)
class Room:
    """Within what a setting can be varied.

    Attributes:
        cores: threads that the phone can run at once.
        backends: what can be asked for on this phone.
        uses_mmap: whether the model's own configuration maps weights from the file.
        least_prompt: shortest prompt that is of use.
    """

    cores: int
    backends: tuple[str, ...] = ("cpu",)
    uses_mmap: bool = False
    least_prompt: int = 8


@dataclass
class Search:
    """What was found.

    Attributes:
        found: the nearest settings that work, nearest axis first.
        tried: every setting that was run, and whether it worked.
        whole: whether everything was tried that could be; otherwise time was over.
    """

    found: list[Setting] = field(default_factory=list)
    tried: dict[Setting, bool] = field(default_factory=dict)
    whole: bool = True


def axes_of(failing: Setting, room: Room, reason: Reason | None = None) -> tuple[Axis, ...]:
    """Return along what a failing setting can be changed, the most promising first."""
    order = _ORDER.get(reason, _USUAL) if reason is not None else _USUAL
    axes = [axis for axis in _axes(failing, room) if len(axis.values) > 1]
    return tuple(sorted(axes, key=lambda axis: order.index(axis.name)))


def _axes(failing: Setting, room: Room) -> Iterable[Axis]:
    if failing.backend == "cpu":
        down = tuple(range(failing.threads, 0, -1))
        yield Axis("threads", down if failing.threads > 1 else _both(1, room.cores))
    prompt, step = failing.prompt_tokens, max(1, failing.prompt_tokens // _STEPS)
    shorter = list(range(prompt - step, room.least_prompt, -step))
    yield Axis("prompt_tokens", (prompt, *shorter, *([room.least_prompt] if prompt > room.least_prompt else [])))
    # The CPU first: it is what most programs fall back to.
    for other in sorted(room.backends, key=lambda name: name != "cpu"):
        yield Axis("backend", _both(failing.backend, other))
    for name, level in (("precision", failing.precision), ("memory", failing.memory)):
        place = LEVELS.index(level)
        yield Axis(name, LEVELS[place:])
        yield Axis(name, LEVELS[place::-1])
    mapped = room.uses_mmap if failing.use_mmap is None else failing.use_mmap
    yield Axis("use_mmap", (failing.use_mmap, not mapped))


def _both(one: Any, other: Any) -> tuple[Any, ...]:
    return (one,) if one == other else (one, other)


def find_nearest(
    failing: Setting,
    axes: Sequence[Axis],
    works: Callable[[Setting], bool],
    known: Mapping[Setting, bool] = {},
    *,
    enough: int = ENOUGH,
    is_over: Callable[[], bool] = lambda: False,
    search: Search | None = None,
) -> Search:
    """Return the settings nearest to one that fails which work.

    Args:
        failing: what fails.
        axes: along what it may be changed.
        works: runs a setting; never called twice with the same, nor with the failing one.
        known: settings of which it is known already.
        enough: how many are looked for.
        is_over: whether the time is up.
        search: takes what is found; whoever may be interrupted has so much of it.
    """
    search = Search() if search is None else search
    seen = {**known, failing: False}

    def holds(setting: Setting) -> bool:
        if setting not in seen:
            if is_over():
                search.whole = False
                return False
            seen[setting] = search.tried[setting] = works(setting)
        return seen[setting]

    for axis in axes:
        if len(search.found) >= enough:
            return search
        nearest = _border(failing, axis, holds)
        if nearest is not None and nearest not in search.found:
            search.found.append(nearest)
    if not search.found:
        search.found += _together(failing, axes, holds)
    return search


def _border(failing: Setting, axis: Axis, holds: Callable[[Setting], bool]) -> Setting | None:
    """Return the setting on an axis that is nearest to the failing one and works, ``None`` if its end does not."""
    fails, good = 0, len(axis.values) - 1
    if not holds(axis.at(failing, good)):
        return None
    while good - fails > 1:
        middle = (good + fails) // 2
        if holds(axis.at(failing, middle)):
            good = middle
        else:
            fails = middle
    return axis.at(failing, good)


def _together(failing: Setting, axes: Sequence[Axis], holds: Callable[[Setting], bool]) -> list[Setting]:
    """Change everything, then change back what need not be changed."""
    first: dict[str, Axis] = {}
    for axis in axes:
        first.setdefault(axis.name, axis)
    best = failing
    for axis in first.values():
        best = axis.at(best, len(axis.values) - 1)
    if len(first) < 2 or not holds(best):
        return []
    for axis in first.values():
        back = axis.at(best, 0)
        if back != failing and holds(back):
            best = back
    return [best]
