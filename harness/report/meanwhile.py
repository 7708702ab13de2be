"""What happened to the phones while nobody looked: lost, back, taken over, settings refused, left out. Pure.

It is worked out from the records of all attempts, so that a phone that was lost in the first start of a run is told of
also when ``--resume`` has done its cells since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from harness.core.ids import iso
from harness.core.reasons import Fault, Reason, Verdict
from harness.report.besides import warning_codes
from harness.report.cells import by_phone, phone_labels
from harness.report.text import one_line, plural
from harness.store.head import LeftOut
from harness.store.schema import CellRecord

# The phone was not there when the cell ended: it was given up, also when no cell came after.
_AWAY: Final = frozenset({Reason.DEVICE_LOST, Reason.DEVICE_OFFLINE, Reason.UNAUTHORIZED})
# Of those who were left out, whom a person should look after in the morning.
_LEFT_OUT: Final = ("held", "busy")
_WHAT: Final = {"recovered": "lost and back", "lease": "lease", "prepare_refused": "setting refused"}


@dataclass(frozen=True)
class Event:
    """One thing that happened to one phone.

    Attributes:
        when: UTC, as records write it; ``""`` when that is not known.
        phone: its label.
        what: a few words.
        code: of the reason or of the note.
        detail: what was seen.
        cells: in how many cells; of a phone that was given up, how many it cost until it measured again.
        gone: the phone was given up.
        back: when it measured again after it was given up; ``None``: it did not.
    """

    when: str
    phone: str
    what: str
    code: str
    detail: str
    cells: int = 1
    gone: bool = False
    back: str | None = None


def events(attempts: Sequence[CellRecord], left_out: Sequence[LeftOut] = ()) -> list[Event]:
    """Return what happened: first phones that have not measured since, then by time, last those that others had.

    Args:
        attempts: every record of the run, as written.
        left_out: who took no part at the latest start.
    """
    labels = phone_labels(attempts)
    found = [
        event
        for phone_id, group in by_phone(attempts).items()
        for event in _of_phone(labels[phone_id], _in_time(group))
    ]
    found.sort(key=lambda event: (not (event.gone and event.back is None), event.when))
    return found + [
        Event("", one_line(left.name), "left out", left.code, left.reason, 0)
        for left in left_out
        if left.code in _LEFT_OUT
    ]


def in_short(attempts: Sequence[CellRecord], latest: Sequence[CellRecord]) -> list[str]:
    """Return a line for each phone that was given up or came back, and one for all other warnings."""
    happened = events(attempts)
    lines = []
    for phone_id, label in phone_labels(attempts).items():
        its = [event for event in happened if event.phone == label]
        lost = [event for event in its if event.gone]
        if lost and lost[-1].back is None:
            left = sum(not record.final for record in latest if record.phone.id == phone_id)
            lines.append(
                f"{label} was given up ({lost[-1].code}): {plural(left, 'cell')} unfinished, finish with --resume"
            )
        back = sum(event.cells for event in its if event.code == "recovered")
        if back:
            lines.append(f"{label} was lost and came back: in {plural(back, 'cell')}")
    others = Counter(code for record in attempts for code in warning_codes(record) if code != "recovered")
    if others:
        codes = ", ".join(f"{code} in {plural(count, 'cell')}" for code, count in others.items())
        lines.append(f"warnings beside the figures, told in the report: {codes}")
    return lines


def _in_time(records: Sequence[CellRecord]) -> list[CellRecord]:
    return sorted(records, key=lambda record: record.started)


def _of_phone(label: str, records: Sequence[CellRecord]) -> list[Event]:
    gone: list[Event] = []
    is_away = False
    others: dict[tuple[str, str], Event] = {}
    for record, following in zip(records, (*records[1:], None), strict=True):
        why, then = record.why, None if following is None else following.why
        ends = why is not None and _is_end(why, then)
        befell = _notes(label, record) if ends else [*_notes(label, record), *_mishap(label, record)]
        for event in befell:
            seen = others.setdefault((event.code, event.detail), replace(event, cells=0))
            others[event.code, event.detail] = replace(seen, cells=seen.cells + 1)
        if ends and is_away:
            gone[-1] = replace(gone[-1], cells=gone[-1].cells + 1)
        elif why is not None and ends:
            gone.append(Event(_end(record), label, "given up", why.code, _detail(record), gone=True))
            is_away = True
        elif is_away and record.verdict is not Verdict.SKIPPED:
            gone[-1] = replace(gone[-1], back=record.started)
            is_away = False
    return [*gone, *others.values()]


def _is_end(why: Reason, then: Reason | None) -> bool:
    """Whether a phone was given up with a cell that ended so; ``then`` is how its next one ended."""
    return why in _AWAY or why is Reason.PHONE_GONE or (_is_mishap(why) and then is Reason.PHONE_GONE)


def _is_mishap(why: Reason) -> bool:
    """Whether something happened to the phone, rather than to the figures of its cell."""
    return why is Reason.THERMAL_SHUTDOWN or (why.verdict is Verdict.FAILED and why.fault is Fault.INFRA)


def _notes(label: str, record: CellRecord) -> list[Event]:
    """Return a record's warnings; each sentence once."""
    said = dict.fromkeys((f.code, one_line(f.title)) for f in record.findings if f.severity == "warning")
    return [Event(record.started, label, _WHAT.get(code, "warning"), code, title) for code, title in said]


def _mishap(label: str, record: CellRecord) -> list[Event]:
    """Return what befell a phone that was not given up for it."""
    why = record.why
    if why is None or not _is_mishap(why):
        return []
    return [Event(_end(record), label, why.says, why.code, _detail(record))]


def _detail(record: CellRecord) -> str:
    """Return what was seen; the phone's name stands beside it."""
    return record.detail.removeprefix(f"{record.phone.name}: ")


def _end(record: CellRecord) -> str:
    """Return when a cell ended; its start where that is no time."""
    try:
        started = datetime.fromisoformat(record.started.replace("Z", "+00:00"))
        return iso(started + timedelta(seconds=record.elapsed_s))
    except (ValueError, OverflowError):
        return record.started
