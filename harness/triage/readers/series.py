"""Times and speeds that a text repeats: ever slower, widely spread, or slower in one state of the phone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, median, pstdev

from harness.triage.entry import Entry, Evidence

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_UNIT = r"(?P<unit>ms|msec|milliseconds|s|sec|seconds|(?:tok(?:ens?)?|t)/s|fps)(?![\w/])"
_VALUE = re.compile(r"(?P<value>\d{1,9}(?:\.\d{1,9})?) ?" + _UNIT)
_MINUTES = re.compile(r"(?P<minutes>\d{1,3}) ?m(?:in)? ?(?P<seconds>\d{1,2}(?:\.\d{1,9})?) ?s\b")
_LIST = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?[ ,/]{1,3}){2,40}\d{1,9}(?:\.\d{1,9})? ?" + _UNIT)
# What a line is about whose time tells of the whole work, not of one layer or of loading.
_WORK = re.compile(r"(?i)infer|forward|predict|detect|decode|generat|consum|latency|elapsed|\bcosts?\b|took|耗时|推理")
_TOTAL = re.compile(r"(?i)\b(?:total|whole|overall|avg|average|mean) (?:time|latency|cost)")
_LONGEST = 300
_LEAST = 8
_SLOWER = 1.4
_WIDE = 0.3
_TWICE = 2.0
_WORSE = 1.5

# Where a phone gives a process its full speed, and where it does not.
_BAD = re.compile(
    r"(?i)\bback-?ground\b|\b(?:screen|display)[ -]?(?:is |was |turned )?off\b|\b(?:phone|screen)?[ -]?lock(?:ed)?\b"
    r"|\bnot in focus\b|\bout of focus\b|\bdoz(?:e|ing)\b|后台|息屏|锁屏|灭屏|熄屏"
)
_GOOD = re.compile(
    r"(?i)\bfore-?ground\b|\b(?:screen|display)[ -]?(?:is |was |turned )?on\b|\bunlocked\b"
    r"|\bawake\b|\bin focus\b|\bin front\b|\btop-app\b|前台|亮屏"
)
_APP = re.compile(r"(?i)\b(?:app|apk|jni|activity)\b|应用")
_SHELL = re.compile(
    r"(?i)\badb shell\b|\b(?:from|in) (?:the )?shell\b|\bcommand line\b|\bnative (?:program|binary)\b|命令行"
)
_TIMES = re.compile(r"(?i)(?P<times>\d{1,3}(?:\.\d{1,2})?) ?(?:x|×|times|倍)")
_FROM_TO = re.compile(
    r"(?i)(?:from|从|由) ?(?P<first>\d{1,7}(?:\.\d{1,4})?) ?(?P<unit>ms|s|(?:tok(?:ens?)?|t)/s)?.{0,12}?(?:to|到|成) ?"
    r"(?:about |around |约)?(?P<second>\d{1,7}(?:\.\d{1,4})?) ?(?P<unit2>ms|s|(?:tok(?:ens?)?|t)/s)"
)
_SLOW = re.compile(r"(?i)slow|longer|takes|drops?\b|慢|变长")
_CLAUSE = re.compile(r"[;，；。]|,(?! ?\d)|\bvs\.? ")


def series_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what repeated times and speeds of a text show, as lines for rules."""
    yield from _repeated(entries)
    yield from _states(entries, "background", _BAD, _GOOD)
    yield from _states(entries, "app", _APP, _SHELL)


def _repeated(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what lines tell that are the same but for their numbers."""
    same: dict[str, list[tuple[float, tuple[float, ...], Evidence]]] = {}
    for entry in entries:
        if entry.kind not in ("text", "logcat", "note") or len(entry.text) > _LONGEST or not entry.evidence:
            continue
        values = list(_VALUE.finditer(entry.text))
        if len(values) != 1:
            continue
        value = values[0]
        rest = entry.text[: value.start()] + "\0" + entry.text[value.end() :]
        key = value["unit"] + " " + _NUMBER.sub("#", rest).strip()
        if _TOTAL.search(rest) or _WORK.search(rest) or not re.search(r"[^\W\d_]", rest):
            others = tuple(float(number) for number in _NUMBER.findall(rest))
            same.setdefault(key, []).append((float(value["value"]), others, entry.evidence[0]))
    for key, found in same.items():
        yield from _shown(key, found)


def _shown(key: str, found: Sequence[tuple[float, tuple[float, ...], Evidence]]) -> Iterator[Entry]:
    columns = list(zip(*(others for _, others, _ in found), strict=True)) if found[0][1] else []
    fixed = all(len(set(column)) == 1 for column in columns)
    if not all(len(set(column)) == 1 or _counts(column) for column in columns):
        return
    values = [value for value, _, _ in found]
    speeds = key.startswith(("tok", "t/s", "fps"))
    if min(values) <= 0:
        return
    evidence = tuple(one for _, _, one in found)
    times = [1 / value for value in values] if speeds else values
    if len(values) >= _LEAST and (told := _trend(values, times)) is not None:
        yield Entry(told, "table", _few(evidence))
    elif len(values) >= 2 and fixed and _TOTAL.search(key) and max(times) >= _TWICE * min(times):
        yield Entry(_spread(values), "table", _few(evidence))


def _counts(column: Sequence[float]) -> bool:
    """Return whether numbers go up by the same step, as those of runs do."""
    return len({second - first for first, second in pairwise(column)}) == 1 and column[1] > column[0]


def _trend(values: Sequence[float], times: Sequence[float]) -> str | None:
    # The first one warms up.
    early, late = times[1 : 1 + max(3, len(times) // 4)], times[-(len(times) // 3) :]
    if median(late) >= _SLOWER * median(early) and min(late) > 1.15 * median(early):
        return (
            f"series: slower first={values[1]:g} last={values[-1]:g} "
            f"times={median(late) / median(early):.1f} count={len(values)}"
        )
    return _spread(values) if pstdev(times[1:]) > _WIDE * mean(times[1:]) else None


def _spread(values: Sequence[float]) -> str:
    return f"series: spread low={min(values):g} high={max(values):g} median={median(values):g} count={len(values)}"


def _few(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    return (*evidence[:3], *evidence[-3:]) if len(evidence) > 6 else evidence


def _states(entries: Sequence[Entry], name: str, bad: re.Pattern[str], good: re.Pattern[str]) -> Iterator[Entry]:
    """Yield that the same work is slower in the one state than in the other."""
    slow: list[float] = []
    fast: list[float] = []
    units: set[str] = set()
    evidence: list[Evidence] = []
    for entry in entries:
        if entry.kind not in ("text", "note") or not (bad.search(entry.text) or good.search(entry.text)):
            continue
        sentence = _in_one_line(entry.text[:_LONGEST], bad) if name == "background" else None
        if sentence is not None:
            yield Entry(f"state: slower state={name} {sentence}", "table", entry.evidence)
            return
        before = len(slow) + len(fast)
        told_to = None
        for clause in _CLAUSE.split(entry.text[:_LONGEST]):
            place, other = bad.search(clause), good.search(clause)
            if place is not None or other is not None:
                is_bad = other is None or (place is not None and place.start() < other.start())
                told_to = slow if is_bad else fast
            times, unit = _times(clause)
            if times and told_to is not None:
                units.add(unit)
                told_to.append(median(times))
        if len(slow) + len(fast) > before:
            evidence += entry.evidence
    if slow and fast and len(units) == 1:
        a, b = median(fast), median(slow)
        times_slower = a / b if units == {"/s"} else b / a
        if times_slower >= _WORSE:
            text = f"state: slower state={name} fast={a:.4g} slow={b:.4g} times={times_slower:.1f}"
            yield Entry(text, "table", tuple(evidence))


def _in_one_line(text: str, bad: re.Pattern[str]) -> str | None:
    """Return what a sentence tells like "from 100 ms to 500 ms in the background", or "5x slower when locked"."""
    if bad.search(text) is None:
        return None
    change = _FROM_TO.search(text)
    if change is not None:
        first, second = float(change["first"]), float(change["second"])
        times = first / second if change["unit2"].endswith("/s") and second else second / first if first else 0.0
        if times >= _WORSE:
            return f"fast={first:g} slow={second:g} times={times:.1f}"
    factor = _TIMES.search(text)
    if factor is not None and _SLOW.search(text) and float(factor["times"]) >= _WORSE:
        return f"fast=1 slow={factor['times']} times={factor['times']}"
    return None


def _times(clause: str) -> tuple[list[float], str]:
    """Return the times in ms, or the speeds, of a part of a line, and which of the two they are."""
    if (long := _MINUTES.search(clause)) is not None:
        return [60e3 * float(long["minutes"]) + 1e3 * float(long["seconds"])], "ms"
    many = _LIST.search(clause)
    if many is not None:
        values = [float(number) for number in _NUMBER.findall(many[0])]
        return _in_ms(values, many["unit"])
    one = _VALUE.search(clause)
    return ([], "") if one is None else _in_ms([float(one["value"])], one["unit"])


def _in_ms(values: list[float], unit: str) -> tuple[list[float], str]:
    if unit.endswith("/s") or unit == "fps":
        return [value for value in values if value > 0], "/s"
    scale = 1.0 if unit.startswith("m") else 1e3
    return [value * scale for value in values if value > 0], "ms"
