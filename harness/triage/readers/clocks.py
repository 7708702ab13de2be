"""Cores and clocks: a limit below what a core can do, a clock that fell with heat, masks that matter. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry, Evidence

_LIMIT = re.compile(
    r"(?P<core>(?:cpu|policy)\d{1,2})(?:/cpufreq)?[/ _.:]{1,2}(?P<what>scaling_max_freq|cpuinfo_max_freq)"
    r"[^\w]{1,8}(?P<khz>\d{5,8})\b"
)
_CLOCK = re.compile(r"(?<![\w.])(?P<value>\d{1,4}(?:\.\d{1,3})?) ?(?P<unit>[GM])Hz\b")
_HOT = re.compile(r"(?i)\d{2,3}(?:\.\d)? ?°? ?C\b|throttl|\bheats?\b|\bhot\b|temperature|发热|降频")
# A limit or a clock below this share of the full one is not of everyday's rounding.
_CAPPED = 0.9
_FELL = 0.75
_MASK = re.compile(r"(?i)\b(?:taskset|mask|affinity)\b[ =:]{1,3}(?:0x)?(?P<mask>[0-9a-f]{1,3})\b(?P<rest>.{0,80})")
_TIME = re.compile(r"(?<![\d.])(?P<ms>\d{1,7}(?:\.\d{1,4})?) ?ms\b")
_SPEED = re.compile(r"(?<![\d.])(?P<tps>\d{1,6}(?:\.\d{1,4})?) ?(?:tok(?:ens?)?|t)/s\b")
_OTHER_CORES = 1.4


def clock_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what the lines of a text show of clocks, as lines for rules."""
    yield from _capped(entries)
    yield from _fell(entries)
    yield from _masks(entries)


def _capped(entries: Sequence[Entry]) -> Iterator[Entry]:
    limits: dict[str, dict[str, tuple[int, tuple[Evidence, ...]]]] = {}
    for entry in entries:
        for match in _LIMIT.finditer(entry.text[:400]):
            limits.setdefault(match["core"], {})[match["what"]] = (int(match["khz"]), entry.evidence)
    for core, both in limits.items():
        if len(both) == 2:
            now, full = both["scaling_max_freq"], both["cpuinfo_max_freq"]
            if now[0] < _CAPPED * full[0]:
                yield Entry(f"clock: capped core={core} now={now[0]} full={full[0]}", "table", (*now[1], *full[1]))


def _fell(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield that a clock told in prose fell, where the same text speaks of heat."""
    clocks: list[tuple[float, str, Evidence]] = []
    hot = False
    for entry in entries:
        if entry.kind not in ("text", "note") or not entry.evidence:
            continue
        hot = hot or _HOT.search(entry.text[:400]) is not None
        for match in _CLOCK.finditer(entry.text[:400]):
            mhz = float(match["value"]) * (1000 if match["unit"] == "G" else 1)
            clocks.append((mhz, match[0], entry.evidence[0]))
    if hot and 2 <= len(clocks) <= 40 and clocks[-1][0] < _FELL * clocks[0][0] and clocks[0][0] == max(clocks)[0]:
        first, last = clocks[0][1].replace(" ", ""), clocks[-1][1].replace(" ", "")
        evidence = tuple(dict.fromkeys((clocks[0][2], clocks[-1][2])))
        yield Entry(f"clock: fell from={first} to={last}", "table", evidence)


def _masks(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield that the same work is much slower on other cores, where lines tell masks of cores and times."""
    speeds: dict[str, float] = {}
    evidence: list[Evidence] = []
    for entry in entries:
        match = _MASK.search(entry.text[:300]) if entry.kind in ("text", "note") else None
        if match is None:
            continue
        time, speed = _TIME.search(match["rest"]), _SPEED.search(match["rest"])
        if time is not None and float(time["ms"]) > 0:
            speeds[match["mask"]] = 1e3 / float(time["ms"])
        elif speed is not None and float(speed["tps"]) > 0:
            speeds[match["mask"]] = float(speed["tps"])
        else:
            continue
        evidence += entry.evidence
    if len(speeds) < 2:
        return
    best, worst = max(speeds, key=lambda mask: speeds[mask]), min(speeds, key=lambda mask: speeds[mask])
    if speeds[best] >= _OTHER_CORES * speeds[worst]:
        text = f"cores: differ best={best} worst={worst} times={speeds[best] / speeds[worst]:.1f}"
        yield Entry(text, "table", tuple(dict.fromkeys(evidence)))
