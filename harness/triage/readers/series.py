"""Times and speeds that a text repeats: ever slower, or widely spread. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, median, pstdev

from harness.triage.entry import Entry, Evidence

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_UNIT = r"(?P<unit>ms|msec|milliseconds|s|sec|seconds|(?:tok(?:ens?)?|t)/s|fps)(?![\w/])"
_VALUE = re.compile(r"(?P<value>\d{1,9}(?:\.\d{1,9})?) ?" + _UNIT)
# What a line is about whose time tells of the whole work, not of one layer or of loading.
_WORK = re.compile(r"(?i)infer|forward|predict|detect|decode|generat|consum|latency|elapsed|\bcosts?\b|took|耗时|推理")
_TOTAL = re.compile(r"(?i)\b(?:total|whole|overall|avg|average|mean) (?:time|latency|cost)")
# "80-240 ms", where people say that one thing takes now this and now that.
_RANGE = re.compile(
    r"(?<![\d.])(?P<low>\d{1,7}(?:\.\d{1,3})?) ?(?:ms)? ?(?:-|~|–|～|to|到) ?(?P<high>\d{1,7}(?:\.\d{1,3})?) ?ms\b"
)
_VARIES = re.compile(
    r"(?i)\bvar(?:y|ies|ied|ying)\b|unstable|not stable|fluctuat|jitter|same model|same input"
    r"|many times|multiple times|repeated|波动|不稳定|忽快忽慢|震荡"
)
# What a line tells of a process's memory.
_MEMORY = re.compile(
    r"(?i)\b(?:rss|pss|vmrss|native heap|heap|memory)\b[^\d]{0,30}(?P<size>\d{1,8}(?:\.\d{1,3})?) ?(?P<unit>[GMk]i?B)\b"
)
# Times that grow with the text's length tell nothing of the phone.
_CONTEXT = re.compile(r"(?i)\btokens?\b(?! ?/ ?s)|\bcontext\b|\bctx\b|\bseq(?:uence)?_?len")
_LONGEST = 300
_LEAST = 8
# Where a text speaks of heat so many runs are enough, each slower than the one before.
_LEAST_HOT = 3
_HOT = re.compile(r"(?i)\b[4-9]\d(?:\.\d)? ?°? ?C\b|throttl|\bhot\b|overheat|发热|发烫|降频")
_MOST_PROSE = 2000
_SLOWER = 1.4
_WIDE = 0.3
_TWICE = 2.0
# Memory that hardly ever falls and is so many times that of the second line leaks.
_GROWN = 1.5


def series_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what lines tell that are the same but for their numbers, as lines for rules."""
    same: dict[str, list[tuple[float, tuple[float, ...], Evidence]]] = {}
    for entry in entries:
        if entry.kind not in ("text", "logcat", "note") or len(entry.text) > _LONGEST or not entry.evidence:
            continue
        values = list(_VALUE.finditer(entry.text))
        if len(values) != 1:
            continue
        value = values[0]
        if _CONTEXT.search(entry.text):
            continue
        rest = entry.text[: value.start()] + "\0" + entry.text[value.end() :]
        key = value["unit"] + " " + _NUMBER.sub("#", rest).strip()
        if (
            value["unit"].endswith("/s")
            or _TOTAL.search(rest)
            or _WORK.search(rest)
            or not re.search(r"[^\W\d_]", rest)
        ):
            others = tuple(float(number) for number in _NUMBER.findall(rest))
            same.setdefault(key, []).append((float(value["value"]), others, entry.evidence[0]))
    hot = any(_HOT.search(entry.text[:_LONGEST]) for entry in entries[:_MOST_PROSE])
    for key, found in same.items():
        yield from _shown(key, found, hot)
    yield from _growing(entries)
    yield from _ranges(entries)


def _growing(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield that what lines of one form tell of memory grows and grows."""
    same: dict[str, list[tuple[float, Evidence]]] = {}
    for entry in entries:
        if entry.kind in ("text", "logcat", "note") and entry.evidence:
            found = _MEMORY.findall(entry.text[:_LONGEST])
            if len(found) == 1:
                key = found[0][1] + " " + _NUMBER.sub("#", entry.text[:_LONGEST])
                same.setdefault(key, []).append((float(found[0][0]), entry.evidence[0]))
    for rows in same.values():
        sizes = [size for size, _ in rows]
        rising = sum(second >= first for first, second in pairwise(sizes))
        if len(sizes) >= _LEAST and rising >= 0.9 * (len(sizes) - 1) and sizes[-1] >= _GROWN * sizes[1] > 0:
            text = f"memory: grows first={sizes[0]:g} last={sizes[-1]:g} runs={len(sizes)}"
            yield Entry(text, "table", _few(tuple(one for _, one in rows)))


def _ranges(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the spread that somebody tells in words."""
    for entry in entries:
        text = entry.text[:_LONGEST]
        match = _RANGE.search(text) if entry.kind in ("text", "note") and _VARIES.search(text) else None
        if match is not None and float(match["high"]) >= _TWICE * float(match["low"]) > 0:
            yield Entry(
                f"series: spread low={match['low']} high={match['high']} median=? count=?", "table", entry.evidence
            )


def _shown(key: str, found: Sequence[tuple[float, tuple[float, ...], Evidence]], hot: bool) -> Iterator[Entry]:
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
    elif hot and len(values) >= _LEAST_HOT and times == sorted(times) and times[-1] >= _SLOWER * times[0]:
        text = (
            f"series: slower first={values[0]:g} last={values[-1]:g} "
            f"times={times[-1] / times[0]:.1f} count={len(values)}"
        )
        yield Entry(text, "table", _few(evidence))
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
