"""The news for a person who has ten seconds: red or green, whose fault, then what is wrong, worst first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.core.reasons import ExitStatus, Fault, Outcome, Reason, Verdict
from harness.plan.known import SLOWER
from harness.report.advice import ADVICE, LOST_ADVICE, SLOWER_ADVICE, WHOSE_SHORT
from harness.report.besides import known_cause
from harness.report.news_file import NewsFile, Told
from harness.report.text import backend_name, cut, distinct, one_line, plural
from harness.store.schema import CellRecord

Colour = Literal["red", "yellow", "green"]

# What waits for somebody to act comes first.
_STATES: Final = ("new", "still", "known", "fixed", "gone")
_FAULTS: Final = (Fault.PRODUCT, Fault.CONFIG, Fault.HARNESS, Fault.INFRA, None)
_PHONES_NAMED: Final = 3
_TICKETS_NAMED: Final = 3
_NAME_WIDTH: Final = 40
_BADGES: Final = {"new": "skipped", "still": "failed", "known": "rejected", "fixed": "ok", "gone": "unsupported"}
# Groups of trouble that a terminal gets, each two lines.
_GROUPS_SHOWN: Final = 4
# What no record explains, by pytest's exit status.
_WHY_RED: Final = {
    1: "a tier's SLO is missed, or a test failed that no record explains (see above)",
    2: "the run was cut short",
    5: "no test was collected",
    10: "the lab or this computer ended it (see above)",
}


@dataclass(frozen=True)
class Group:
    """Cells that are the same news for the same reason on the same backend, over phones.

    ``from_logs``: what to do was found in a log and is no text of ours alone.
    """

    state: str
    fault: Fault | None
    reason: str
    backend: str
    ticket: str | None
    red: bool
    words: str
    do: str
    phones: tuple[str, ...]
    cells: tuple[Told, ...]
    from_logs: bool = False

    @property
    def whose(self) -> str:
        """Whose fault it is, in two words."""
        return WHOSE_SHORT[self.fault] if self.fault is not None else ""

    @property
    def what(self) -> str:
        """Return e.g. ``OpenCL output_wrong``; ``""`` where nothing is wrong."""
        return f"{backend_name(self.backend)} {self.reason}" if self.reason else ""

    @property
    def badge(self) -> str:
        """The verdict in whose colour it is shown."""
        return "failed" if self.red and self.state != "known" else _BADGES[self.state]

    def label(self, compared: bool) -> str:
        """Return its state in capitals; beside no other run a failure is not new, but failed."""
        return self.state.upper() if compared or self.state == "known" else "FAILED"

    @property
    def where(self) -> str:
        """Return e.g. ``6 cells on 3 phones (atlas, birch, cedar)``."""
        named = ", ".join(cut(phone, _NAME_WIDTH) for phone in self.phones[:_PHONES_NAMED])
        more = f" and {len(self.phones) - _PHONES_NAMED} more" if len(self.phones) > _PHONES_NAMED else ""
        return f"{plural(len(self.cells), 'cell')} on {plural(len(self.phones), 'phone')} ({named}{more})"


@dataclass(frozen=True)
class Headline:
    """The run in one line, and the colour in which it is shown."""

    colour: Colour
    text: str


@dataclass(frozen=True)
class NewsView:
    """The news as pages show them. ``against`` is the run compared with, ``issues`` what to do about known ones."""

    headline: Headline
    against: str | None
    groups: tuple[Group, ...]
    issues: tuple[str, ...]


def view_of(news: NewsFile, records: Sequence[CellRecord]) -> NewsView:
    """Return the news of a run as pages show them."""
    return NewsView(qa_headline(news, records), news.against, tuple(groups_of(news, records)), tuple(issue_lines(news)))


def groups_of(news: NewsFile, records: Sequence[CellRecord]) -> list[Group]:
    """Return the news in groups, worst first: by state, by whose fault, by how many phones and cells."""
    by_id = {record.cell_id: record for record in records}
    gathered: dict[tuple[object, ...], list[Told]] = {}
    for item in news.items:
        if item.state == "gone":
            key: tuple[object, ...] = (item.state, item.words)
        elif item.state == "fixed":
            key = (item.state,)
        else:
            key = (item.state, item.red, item.fault, item.reason, item.backend, item.ticket)
        gathered.setdefault(key, []).append(item)
    return sorted((_group(items, by_id) for items in gathered.values()), key=_worst_first)


def _group(items: Sequence[Told], by_id: dict[str, CellRecord]) -> Group:
    first = items[0]
    do, from_logs = _advice(first, by_id.get(first.cell_id))
    return Group(
        state=first.state,
        fault=first.fault,
        reason=first.reason,
        backend=first.backend if first.reason else "",
        ticket=first.ticket,
        red=first.red,
        words=_said(items),
        do=do,
        phones=tuple(distinct(item.phone for item in items)),
        cells=tuple(items),
        from_logs=from_logs,
    )


def _said(items: Sequence[Told]) -> str:
    words = Counter(item.words for item in items if item.words)
    if not words:
        return ""
    most = words.most_common(1)[0][0]
    return most if len(words) == 1 else f"{most} (and {plural(len(words) - 1, 'other case')})"


def _advice(item: Told, record: CellRecord | None) -> tuple[str, bool]:
    """Return what to do, and whether that was found in a log."""
    if not item.reason:
        return "", False
    if item.reason == SLOWER:
        return SLOWER_ADVICE, False
    reason = Reason.from_code(item.reason)
    if item.red and reason.verdict is Verdict.UNSUPPORTED:
        return LOST_ADVICE, False
    cause = known_cause(record) if record is not None else None
    return (ADVICE[reason], False) if cause is None else (one_line(cause.advice or cause.cause), True)


def _worst_first(group: Group) -> tuple[int, bool, int, int, int]:
    return (
        _STATES.index(group.state),
        not group.red,
        _FAULTS.index(group.fault),
        -len(group.phones),
        -len(group.cells),
    )


def qa_headline(news: NewsFile, records: Sequence[CellRecord]) -> Headline:
    """Return red or green, and whose fault, in one line. An exit status that no record explains is red too."""
    status, unfinished = news.status, news.unfinished
    red = [item for item in news.items if item.red]
    against = f" · against run {one_line(news.against)}" if news.against is not None else ""
    if red:
        return Headline("red", _whose_fault(red, compared=news.against is not None) + against)
    if status != ExitStatus.OK:
        what = _WHY_RED.get(status, f"pytest ended with exit status {status} (see above)")
        return Headline("red", f"RED: {what}{against}")
    if not records:
        return Headline("yellow", "NOTHING PROVEN: no cell was run")
    ok = sum(record.verdict is Verdict.OK for record in records)
    states = Counter(item.state for item in news.items)
    unrun = sum(item.state in ("new", "known") for item in news.items)
    parts = [f"{ok} of {plural(len(records), 'cell')} ok"]
    parts += [f"{states['fixed']} FIXED"] if states["fixed"] else []
    parts += [f"{unrun} that {'was' if unrun == 1 else 'were'} ok not run now"] if unrun else []
    parts += [f"{states['gone']} GONE"] if states["gone"] else []
    parts += [f"{unfinished} not finished"] if unfinished else []
    if not ok:
        return Headline("yellow", f"NOTHING PROVEN: {', '.join(parts)}{against}")
    so_far = " so far" if unfinished else ""
    return Headline("yellow" if unrun or unfinished else "green", f"GREEN{so_far}: {', '.join(parts)}{against}")


def _whose_fault(red: Sequence[Told], *, compared: bool) -> str:
    unknown = [item for item in red if item.state != "known"]
    tickets = distinct(item.ticket for item in red if item.state == "known" and item.ticket is not None)
    named = ", ".join(tickets[:_TICKETS_NAMED]) + (
        f" and {len(tickets) - _TICKETS_NAMED} more" if len(tickets) > _TICKETS_NAMED else ""
    )
    if not unknown:
        return f"RED: {len(red)} failed, all known ({named})"
    parts = []
    for fault in _FAULTS:
        states = Counter(item.state for item in unknown if item.fault is fault)
        if states and fault is not None:
            counted = [f"{states[state]} {state.upper()}" for state in ("new", "still") if states[state]]
            told = ", ".join(counted) if compared else f"{sum(states.values())} failed"
            parts.append(f"{WHOSE_SHORT[fault]} ({told})")
    known = f"; {len(red) - len(unknown)} known ({named})" if len(unknown) < len(red) else ""
    cleared = "; the product is not accused" if all(item.fault is Fault.INFRA for item in red) else ""
    return f"RED, at fault: {', '.join(parts)}{known}{cleared}"


def qa_lines(news: NewsFile, records: Sequence[CellRecord]) -> list[str]:
    """Return what is behind the headline, worst first, in at most eleven lines for a terminal."""
    groups = groups_of(news, records)
    troubles = [group for group in groups if group.reason]
    lines: list[str] = []
    for group in troubles[:_GROUPS_SHOWN]:
        first_step = group.do.partition(". ")[0].removesuffix(".")
        lines += [_line(group, compared=news.against is not None), f"         do: {first_step}"]
    if len(troubles) > _GROUPS_SHOWN:
        rest = troubles[_GROUPS_SHOWN:]
        cells = sum(len(group.cells) for group in rest)
        lines.append(f"  and {plural(len(rest), 'more group')} of {plural(cells, 'cell')}, in the report")
    for state in ("fixed", "gone"):
        found = [group for group in groups if group.state == state]
        if found:
            lines.append(f"  {state.upper():<6} {'; '.join(f'{group.where}: {group.words}' for group in found)}")
    return lines


def issue_lines(news: NewsFile) -> list[str]:
    """Return what is to be done about the file of known issues, and what was passed over; notes, no trouble."""
    lines = [f"known issue expired: {one_line(each)}" for each in news.expired]
    lines += [f"known issue matched nothing: {one_line(each)}" for each in news.stale]
    return lines + [one_line(note) for note in news.notes]


def _line(group: Group, *, compared: bool) -> str:
    state = group.label(compared)
    ticket = f" [{group.ticket}]" if group.ticket is not None else ""
    words = f"; {group.words}" if group.words else ""
    return f"  {state:<6} {group.whose}: {group.what}, {group.where}{ticket}{words}"


def outcome_of_told(record: CellRecord, item: Told | None) -> Outcome:
    """Return the pytest outcome of a cell beside its news: one that is red by comparison failed."""
    own = Outcome.PASSED if record.why is None else record.why.outcome
    by_comparison = item is not None and item.red and own in (Outcome.PASSED, Outcome.SKIPPED)
    return Outcome.FAILED if by_comparison else own
