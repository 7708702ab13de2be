"""Times and speeds that people tell of two states of a phone: in front and in the background, shell and app. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.triage.entry import Entry, Evidence

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_UNIT = r"(?P<unit>ms|msec|milliseconds|s|sec|seconds|(?:tok(?:ens?)?|t)/s|fps|FPS|帧(?:每秒|/秒)?)(?![A-Za-z/])"
_VALUE = re.compile(r"(?P<value>\d{1,9}(?:\.\d{1,9})?) ?" + _UNIT)
_MINUTES = re.compile(r"(?P<minutes>\d{1,3}) ?m(?:in)? ?(?P<seconds>\d{1,2}(?:\.\d{1,9})?) ?s\b")
_LIST = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?[ ,/]{1,3}){2,40}\d{1,9}(?:\.\d{1,9})? ?" + _UNIT)
_TIMES = re.compile(r"(?i)(?P<times>\d{1,3}(?:\.\d{1,2})?) ?(?:x|×|times|倍)")
_FROM_TO = re.compile(
    r"(?i)(?:from|从|由) ?(?P<first>\d{1,7}(?:\.\d{1,4})?) ?(?:ms|s|(?:tok(?:ens?)?|t)/s)?.{0,12}?(?:to|到|成) ?"
    r"(?:about |around |约)?(?P<second>\d{1,7}(?:\.\d{1,4})?) ?(?P<unit>ms|s|(?:tok(?:ens?)?|t)/s)"
)
_SLOW = re.compile(r"(?i)slow|longer|takes|drops?\b|慢|变长")
_CLAUSE = re.compile(r"[;，；。]|,(?! ?\d)|\bvs\.? ")
_LONGEST = 300
# What is longer is a log that nobody wrote by hand.
_MOST_LINES = 2000
# A line without figures that is no longer than this names the state of the lines below.
_HEADING = 60


@dataclass(frozen=True)
class _Pair:
    """Two states: what people call the bad and the good one, and from what factor on the difference counts.

    Lines that match ``but`` speak of something else.
    """

    name: str
    bad: re.Pattern[str]
    good: re.Pattern[str]
    worse: float = 1.5
    sentences: bool = False
    but: re.Pattern[str] | None = None


_PAIRS = (
    _Pair(
        "background",
        re.compile(
            r"(?i)\bback-?ground\b|\b(?:screen|display)[ -]?(?:is |was |turned )?off\b"
            r"|\b(?:phone|screen)?[ -]?lock(?:ed)?\b|\b(?:not in|out of) focus\b|\bdoz(?:e|ing)\b"
            r"|后台|息屏|锁屏|灭屏|熄屏"
        ),
        re.compile(
            r"(?i)\bfore-?ground\b|\b(?:screen|display)[ -]?(?:is |was |turned )?on\b|\bunlocked\b|\bawake\b"
            r"|\bin focus\b|\bin front\b|\btop-app\b|前台|亮屏"
        ),
        sentences=True,
    ),
    _Pair(
        "app",
        re.compile(r"(?i)(?<![a-z])(?:app|apk|jni|activity)(?![a-z])|应用"),
        re.compile(
            r"(?i)\badb shell\b|\b(?:from|in) (?:the )?shell\b|\bcommand line\b|\bnative (?:program|binary)\b"
            r"|(?<![a-z_-])benchmark(?![a-z_-])|命令行"
        ),
    ),
    _Pair(
        "hot",
        re.compile(
            r"(?i)\b(?:gets?|got|is|was|phone) (?:very )?hot\b|overheat|throttl|\bheats? up\b|发热|发烫|过热|降频|高温"
        ),
        re.compile(r"(?i)\bcooled(?: down)?\b|\bcool\b|\bcold phone\b|冷却|常温|散热"),
        worse=1.3,
        sentences=True,
    ),
    _Pair(
        "cold",
        re.compile(
            r"(?i)\bwithout (?:a |any )?warm|\bno warm|\bfirst (?:run|inference|call)\b|\bcold\b|第一次|首次|冷启动"
        ),
        re.compile(
            r"(?i)\bwarm(?:ed)?[- ]?up\b|\bwarm\b|\b(?:second|later|following) (?:run|inference|call)s?\b"
            r"|第二次|之后|热启动"
        ),
        but=re.compile(r"(?i)\btokens?\b(?! ?/ ?s)|\bcontext\b|\bload\w{0,3}\b|\bcreate ?Session|\btun(?:e|ing)\b"),
    ),
    _Pair(
        "later",
        re.compile(
            r"(?i)\bafter(?:wards)?\b(?! (?:the )?(?:re)?(?:start|boot|install|download))|\blater\b|之后|后来|[秒钟]后"
        ),
        re.compile(
            r"(?i)\b(?:at first|initially|first (?:\d{1,6}|few|minutes?|seconds?|frames?|runs?)"
            r"|(?:frames?|runs?) 1 ?(?:to|-))"
            r"|^start\b|\bat (?:the )?(?:start|beginning)\b|开始|前 ?\d{1,6} ?(?:秒|帧|次)"
        ),
        worse=1.3,
        but=re.compile(r"(?i)\btokens?\b(?! ?/ ?s)|\bcontext\b|\bprompt\b"),
    ),
)


def state_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield that the same work is slower in one state than in the other, as lines for rules."""
    prose = [entry for entry in entries if entry.kind in ("text", "note") and entry.evidence]
    if len(prose) > _MOST_LINES:
        return
    for pair in _PAIRS:
        yield from _compared([one for one in prose if pair.but is None or not pair.but.search(one.text)], pair)


def _compared(entries: Sequence[Entry], pair: _Pair) -> Iterator[Entry]:
    slow: list[float] = []
    fast: list[float] = []
    units: set[str] = set()
    evidence: list[Evidence] = []
    heading: list[float] | None = None
    for entry in entries:
        text = entry.text[:_LONGEST]
        sentence = _sentence(text, pair.bad) if pair.sentences else None
        if sentence is not None:
            yield Entry(f"state: slower state={pair.name} {sentence}", "table", entry.evidence)
            return
        state, told = heading, False
        for clause in _CLAUSE.split(text):
            place, other = pair.bad.search(clause), pair.good.search(clause)
            if place is not None or other is not None:
                first = other is None or (place is not None and place.start() < other.start())
                state, told = (slow if first else fast), True
            times, unit = _times(clause)
            if times and state is not None:
                units.add(unit)
                state.append(median(times))
                evidence += entry.evidence
        if told and len(text) <= _HEADING and not _NUMBER.search(text):
            heading = state
        elif told:
            heading = None
    if slow and fast and len(units) == 1:
        a, b = median(fast), median(slow)
        factor = a / b if units == {"/s"} else b / a
        if factor >= pair.worse:
            text = f"state: slower state={pair.name} fast={a:.4g} slow={b:.4g} times={factor:.1f}"
            yield Entry(text, "table", tuple(dict.fromkeys(evidence)))


def _sentence(text: str, bad: re.Pattern[str]) -> str | None:
    """Return what a sentence tells like "from 100 ms to 500 ms in the background", or "5x slower when locked"."""
    if bad.search(text) is None:
        return None
    change = _FROM_TO.search(text)
    if change is not None:
        first, second = float(change["first"]), float(change["second"])
        if min(first, second) > 0:
            times = first / second if change["unit"].endswith("/s") else second / first
            if times >= _PAIRS[0].worse:
                return f"fast={first:g} slow={second:g} times={times:.1f}"
    factor = _TIMES.search(text)
    if factor is not None and _SLOW.search(text) and float(factor["times"]) >= _PAIRS[0].worse:
        return f"fast=1 slow={factor['times']} times={factor['times']}"
    return None


def _times(clause: str) -> tuple[list[float], str]:
    """Return the times in ms, or the speeds, of a part of a line, and which of the two they are."""
    if (long := _MINUTES.search(clause)) is not None:
        return [60e3 * float(long["minutes"]) + 1e3 * float(long["seconds"])], "ms"
    many = _LIST.search(clause)
    if many is not None:
        return _in_ms([float(number) for number in _NUMBER.findall(many[0])], many["unit"])
    values = list(_VALUE.finditer(clause))
    # Of "about 15 s: 7 ms" the last one is what was measured.
    return ([], "") if not values else _in_ms([float(values[-1]["value"])], values[-1]["unit"])


def _in_ms(values: list[float], unit: str) -> tuple[list[float], str]:
    if unit.endswith("/s") or unit.startswith(("fps", "FPS", "帧")):
        return [value for value in values if value > 0], "/s"
    scale = 1.0 if unit.startswith("m") else 1e3
    return [value * scale for value in values if value > 0], "ms"
