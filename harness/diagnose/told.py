"""A diagnosis as people and programs read it. Pure."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from harness.core.reasons import Fault, Reason
from harness.diagnose.ladder import Diagnosis, Workaround
from harness.diagnose.rung import Outcome, Rung, State
from harness.report.advice import WHOSE
from harness.triage.entry import printable

_MARKS = {State.HELD: "✓", State.BROKE: "✗", State.UNKNOWN: "–"}
_NAME_WIDTH, _SECONDS_WIDTH = 10, 7
_LABEL = 12
# Each is to be pasted, or to be found again in a log, as it stands.
_WHOLE = ("fails:", "works:", "report:", "seen:", "records:")
_SENTENCE = re.compile(r"(?<=[A-Za-z0-9)`][.]) (?=[A-Z`])")
_LOST = "the phone or the connection failed while this ran: the rung is not at fault"


def rung_line(rung: Rung, outcome: Outcome) -> str:
    """Return the line of a rung that was tried: mark, name, seconds, what was seen."""
    seconds = f"{outcome.seconds:.1f} s".rjust(_SECONDS_WIDTH)
    said = outcome.detail or rung.adds
    if outcome.state is State.UNKNOWN:
        said = f"not checkable: {said}"
    if outcome.reason is not None:
        said = f"{outcome.reason.code}: {said}"
    return printable(f"{_MARKS[outcome.state]} {rung.name:<{_NAME_WIDTH}}{seconds}  {said}")


def result_lines(found: Diagnosis) -> list[str]:
    """Return the end result: layer, cause, what to do; then what works instead, and the commands."""
    held = sum(outcome.state is State.HELD for _, outcome in found.climb.tried)
    unknown = [rung.name for rung, outcome in found.climb.tried if outcome.state is State.UNKNOWN]
    beside = f"; not checkable: {', '.join(unknown)}" if unknown else ""
    if found.broken is None:
        return [f"All {held} rungs that can be checked hold{beside}.", f"records:    {found.run_dir}"]
    rung, outcome = found.broken
    whose = f"; at fault: {_whose(outcome)}" if outcome.fault is not None else ""
    advice = [step for one in outcome.advice for step in steps_of(one)] or ["nothing is known"]
    lines = [
        f"layer:      {rung.name} ({rung.adds}): {_LOST if _is_lost(outcome) else rung.why}{whose}",
        f"cause:      {outcome.cause} {_seen(outcome)}".rstrip(),
        f"do:         {advice[0]}",
        *(f"            {step}" for step in advice[1:]),
    ]
    lines += _also(found, rung)
    lines += [f"workaround: {_changed(one)}" for one in found.workarounds]
    if found.why_none:
        lines.append(f"workaround: {'no more: ' if found.workarounds else 'none: '}{found.why_none}")
    if found.reproduce:
        lines.append(f"fails:      {found.reproduce}")
    lines += [f"works:      {one.command}" for one in found.workarounds]
    if outcome.record is not None and outcome.fault is Fault.PRODUCT:
        lines.append(f"report:     {shlex.join(['mnn-farm', 'crash', str(found.run_dir), outcome.record, '--redact'])}")
    lines += [f"seen:       {line}" for line in outcome.evidence if not _is_told(line, outcome.detail)]
    raw = f", raw output in {found.run_dir / outcome.raw}" if outcome.raw else ""
    return [printable(line) for line in (*lines, f"records:    {found.run_dir}{raw}{beside}")]


def steps_of(advice: str) -> list[str]:
    """Return advice a sentence a line, each beginning as a sentence does."""
    return [f"{one[:1].upper()}{one[1:]}" for one in _SENTENCE.split(advice)]


def wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of a result that fit so many columns, what goes on below its begin; commands stay whole."""
    for line in lines:
        if len(line) <= width or line.startswith(_WHOLE):
            yield line
        else:
            begin, rest = line[:_LABEL], line[_LABEL:]
            yield from textwrap.wrap(
                rest,
                width,
                initial_indent=begin,
                subsequent_indent=" " * _LABEL,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _is_lost(outcome: Outcome) -> bool:
    """Whether a run of the engine broke on the phone or its connection; heat is what the last rung asks for."""
    return outcome.record is not None and outcome.fault is Fault.INFRA and outcome.reason is not Reason.THROTTLED


def _whose(outcome: Outcome) -> str:
    if outcome.reason is Reason.UNPARSED_OUTPUT or outcome.fault is None:
        return "what the program prints, or how we read it"
    return WHOSE[outcome.fault]


def _is_told(line: str, detail: str) -> bool:
    """Whether evidence is the sentence that stands above already, with or without its source before it."""
    return bool(detail) and (line in detail or line.endswith(detail) or line.partition(":1: ")[2] in detail.split("; "))


def _seen(outcome: Outcome) -> str:
    return f"Seen: {outcome.detail}" if outcome.detail and outcome.detail not in outcome.cause else ""


def _also(found: Diagnosis, first: Rung) -> list[str]:
    return [
        f"also:       {rung.name} broke ({outcome.reason.code}: {outcome.detail})"
        for rung, outcome in found.climb.tried
        if outcome.state is State.BROKE and rung is not first and outcome.reason is not None
    ]


def _changed(one: Workaround) -> str:
    changed = ", ".join(f"{name} {_word(value)}" for name, value in one.changed.items())
    return f"{changed} (that is: {one.setting.words()})"


def _word(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def as_json(found: Diagnosis) -> dict[str, Any]:
    """Return the whole diagnosis as one JSON document."""
    broken = found.broken
    return {
        "ok": broken is None,
        "device": found.request.device,
        "model": found.request.model_name,
        "bundle": found.request.bundle_word,
        "layer": None if broken is None else broken[0].name,
        "broken": None if broken is None else _rung_json(*broken),
        "rungs": [_rung_json(*one) for one in found.climb.tried],
        "not_tried": [rung.name for rung in found.climb.left],
        "failing_setting": None if found.failing is None else vars(found.failing),
        "workarounds": [
            {"setting": vars(one.setting), "changed": one.changed, "command": one.command} for one in found.workarounds
        ],
        "settings_tried": found.tried,
        "why_no_workaround": found.why_none or None,
        "reproduce": found.reproduce or None,
        "run_dir": str(found.run_dir),
    }


def _rung_json(rung: Rung, outcome: Outcome) -> dict[str, Any]:
    return {
        "rung": rung.name,
        "adds": rung.adds,
        "state": outcome.state.value,
        "seconds": outcome.seconds,
        "detail": outcome.detail,
        "reason": None if outcome.reason is None else outcome.reason.code,
        "fault": None if outcome.fault is None else outcome.fault.value,
        "means": rung.why if outcome.state is State.BROKE else None,
        "code": outcome.code or None,
        "cause": outcome.cause or None,
        "advice": list(outcome.advice),
        "evidence": list(outcome.evidence),
        "reproduce": outcome.reproduce or None,
        "record": outcome.record,
        "raw": outcome.raw,
    }
