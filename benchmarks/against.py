"""What was measured before, to compare with: ratios, and the processor time that ours takes.

Neither is a speed of this computer: a ratio is of the same minute, and processor time is compared only on the same
processor. Worse is what lies above what it was with the whole of both intervals.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside import Compared, Middle

SCHEMA = 1
CPU = "cpu_ms"


@dataclass(frozen=True)
class Change:
    """A figure that got worse. ``figure`` is a peer, whose ratio it is, or :data:`CPU`."""

    measure: str
    figure: str
    before: Middle
    now: Middle

    def sentence(self) -> str:
        """Return it for people."""
        what = "processor time, ms" if self.figure == CPU else f"÷ {self.figure}"
        return (
            f"WORSE: {self.measure}, {what}: {self.now.median:.3g} ({self.now.low:.3g} to {self.now.high:.3g}), "
            f"before {self.before.median:.3g} ({self.before.low:.3g} to {self.before.high:.3g})"
        )


def processor() -> str:
    """Return the processor's name, as the kernel tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Hardware")))
    return next(named, platform.machine())


def baseline_of(measured: Iterable[Compared]) -> dict[str, Any]:
    """Return what of this run later ones compare with."""
    return {
        "schema": SCHEMA,
        "processor": processor(),
        "measures": {one.name: {name: middle.as_dict() for name, middle in _figures(one)} for one in measured},
    }


def read_baseline(path: Path) -> dict[str, Any]:
    """Read a baseline, or the whole answer of a run, which holds one.

    Raises:
        ValueError: it is none.
    """
    try:
        held = json.loads(path.read_text())
        baseline = held.get("baseline", held)
        if baseline["schema"] != SCHEMA:
            raise ValueError(f"{path.name} has schema {baseline['schema']!r}, not {SCHEMA}")
        for figures in baseline["measures"].values():
            for figure in figures.values():
                _middle(figure)
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name} is no baseline ({type(error).__name__}: {error})") from error
    return dict(baseline)


def worse(measured: Sequence[Compared], baseline: Mapping[str, Any]) -> list[Change]:
    """Return what got worse since the baseline."""
    same_processor = baseline["processor"] == processor()
    changes = []
    for one in measured:
        before = baseline["measures"].get(one.name, {})
        for name, now in _figures(one):
            if name not in before or (name == CPU and not same_processor):
                continue
            was = _middle(before[name])
            if now.low > was.high:
                changes.append(Change(one.name, name, was, now))
    return changes


def _figures(one: Compared) -> Iterator[tuple[str, Middle]]:
    for peer in one.peers:
        yield peer, one.ratio(peer)
    yield CPU, one.cpu_ms


def _middle(told: Mapping[str, Any]) -> Middle:
    low, high = told["ci95"]
    return Middle(float(told["median"]), float(low), float(high))
