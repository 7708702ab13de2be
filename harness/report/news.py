"""What is new, known, fixed or gone in a run, held against an earlier one and a list of known issues. Pure.

Cells are matched by their id, which is the phone's, the model's, the bundle's and the whole configuration's. A cell
without a match is held against the one of the same phone, model name and configuration with another build of model or
engine, and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from harness.core.reasons import Fault, Outcome, Verdict
from harness.plan.known import SLOWER, Known
from harness.report.news_slower import Timings, slower, timings_of
from harness.report.text import one_line
from harness.store.schema import CellRecord

State = Literal["new", "still", "known", "fixed", "gone"]


@dataclass(frozen=True)
class Item:
    """One piece of news.

    ``record`` is the cell now (``None``: gone), ``before`` what it was. ``reason`` is what it is not ok for: a reason's
    code, ``slower`` for a cell that is ok, ``""`` where nothing is wrong now. ``red``: it makes the run red.
    """

    state: State
    record: CellRecord | None
    before: CellRecord | None
    words: str
    ticket: str | None = None
    reason: str = ""
    red: bool = False

    @property
    def fault(self) -> Fault | None:
        """Whose fault it is; that of a cell which got slower is the product's."""
        if self.reason == SLOWER:
            return Fault.PRODUCT
        return self.record.fault if self.record is not None else None


@dataclass(frozen=True)
class News:
    """All news of a run, in the order of its records; what is gone comes last.

    ``compared``: there was a run to compare with; without one every failure is new, and nothing is fixed or gone.
    ``stale`` are known issues that no cell of the run has, ``expired`` those that would have matched.
    """

    items: tuple[Item, ...] = ()
    compared: bool = False
    stale: tuple[Known, ...] = ()
    expired: tuple[Known, ...] = ()

    @property
    def regressed(self) -> frozenset[str]:
        """Ids of the cells that are red only by comparison: their records alone would not say so."""
        return frozenset(
            item.record.cell_id
            for item in self.items
            if item.red and item.record is not None and not _is_red_alone(item.record)
        )


def news_of(
    records: Sequence[CellRecord],
    before: Sequence[CellRecord] | None,
    known: Sequence[Known],
    today: date,
    *,
    planned: Collection[str] = (),
    shared: Collection[str] = (),
) -> News:
    """Hold a run against an earlier one.

    Args:
        records: the attempts that count.
        before: those of the earlier run; ``None``: there is none.
        known: the known issues, also those that have expired.
        today: the day on which they are judged.
        planned: ids of cells of this run that are still to come, so are not gone.
        shared: ids of phones whose speed is not judged, since it is that of a computer which does other work too.
    """
    matches = _Matches(before or ())
    used: set[int] = set()
    lapsed: set[int] = set()
    items: list[Item] = []
    for record in records:
        earlier = matches.take(record)
        item = _item(record, earlier, compared=before is not None, shared=record.phone.id in shared)
        if item is None:
            continue
        if item.reason:
            found = [n for n, each in enumerate(known) if _is_it(each, item)]
            valid = [n for n in found if not known[n].expired(today)]
            used.update(found)
            if valid:
                item = _as_known(item, known[valid[0]])
            elif found:
                lapsed.add(found[0])
                item = _as_expired(item, known[found[0]])
        items.append(item)
    if before is not None:
        phones = {record.phone.id for record in records}
        items += [_gone(each, phones) for each in matches.left(planned)]
    stale = tuple(each for n, each in enumerate(known) if n not in used)
    return News(tuple(items), before is not None, stale, tuple(known[n] for n in sorted(lapsed)))


def regression(record: CellRecord, verdict_before: Verdict, timings_before: Timings | None) -> tuple[str, str] | None:
    """Return reason and words of what makes a cell red that its record alone does not: ok before, now worse.

    That is ``unsupported``, or proven slower; ``None`` if it is neither. ``timings_before`` is ``None`` where speed is
    not judged.
    """
    if verdict_before is not Verdict.OK:
        return None
    if record.verdict is Verdict.UNSUPPORTED:
        return record.reason or "", "was ok, is unsupported now"
    now = timings_of(record)
    if now is None or timings_before is None:
        return None
    words = slower(timings_before, now)
    return None if words is None else (SLOWER, words)


def changed_since(record: CellRecord, before: CellRecord) -> str:
    """Say what else is not as it was for the earlier record of a cell: a build, the phone's system; ``""``: nothing."""
    apart = [
        what
        for what, now, then in (
            ("model", record.model.hash, before.model.hash),
            ("device binaries", record.bundle.hash, before.bundle.hash),
            ("Android build", record.phone.fingerprint, before.phone.fingerprint),
        )
        if now != then
    ]
    return f"with another {' and '.join(apart)} than then" if apart else ""


class _Matches:
    """The records of the earlier run, each of which is one cell's."""

    def __init__(self, before: Sequence[CellRecord]) -> None:
        self._left = {record.cell_id: record for record in before}
        self._by_config: dict[tuple[str, ...], str] | None = None

    def take(self, record: CellRecord) -> CellRecord | None:
        found = self._left.pop(record.cell_id, None)
        if found is not None or not self._left:
            return found
        if self._by_config is None:
            self._by_config = {config_key(each): cell_id for cell_id, each in self._left.items()}
        return self._left.pop(self._by_config.get(config_key(record), ""), None)

    def left(self, planned: Collection[str]) -> list[CellRecord]:
        return [record for cell_id, record in self._left.items() if cell_id not in planned]


def config_key(record: CellRecord) -> tuple[str, ...]:
    """Return what a cell is besides its builds: phone, names of model and runner, configuration."""
    return record.phone.id, record.model.name, record.bundle.runner, record.config.model_dump_json()


def _is_red_alone(record: CellRecord) -> bool:
    return record.why is not None and record.why.outcome is not Outcome.SKIPPED


def _item(record: CellRecord, before: CellRecord | None, *, compared: bool, shared: bool) -> Item | None:
    if before is None:
        words = "was not in that run" if compared else ""
        return Item("new", record, None, words, None, record.reason or "", True) if _is_red_alone(record) else None
    worse = regression(record, before.verdict, None if shared else timings_of(before))
    if worse is not None:
        found: tuple[State, str, str, bool] | None = ("new", worse[1], worse[0], True)
    elif _is_red_alone(record):
        found = _trouble(record, before)
    else:
        found = _quiet(record, before)
    if found is None:
        return None
    state, words, reason, red = found
    since = changed_since(record, before)
    return Item(state, record, before, f"{words}, {since}" if since else words, None, reason, red)


def _trouble(record: CellRecord, before: CellRecord) -> tuple[State, str, str, bool]:
    """Return state, words, reason and colour of a cell that is red by its own record."""
    code = record.reason or ""
    if before.verdict is Verdict.OK:
        return "new", "was ok", code, True
    if before.reason == record.reason:
        return "still", "as before", code, True
    return "new", f"was {before.reason}", code, True


def _quiet(record: CellRecord, before: CellRecord) -> tuple[State, str, str, bool] | None:
    """Return the same of a cell that is not red; ``None``: there is nothing to tell."""
    if record.verdict is Verdict.SKIPPED and before.verdict is Verdict.OK:
        return "new", "was ok, was not run now", record.reason or "", False
    if record.verdict is Verdict.OK and before.verdict not in (Verdict.OK, Verdict.SKIPPED):
        return "fixed", f"was {before.reason}", "", False
    return None


def _is_it(known: Known, item: Item) -> bool:
    record = item.record
    if record is None:
        return False
    detail = item.words if item.reason == SLOWER else record.detail
    names = (record.phone.name, record.phone.model)
    return known.matches(item.reason, names, record.model.name, record.config.backend, detail)


def _as_known(item: Item, known: Known) -> Item:
    words = "; ".join(filter(None, (one_line(known.note), item.words)))
    return Item("known", item.record, item.before, words, known.ticket, item.reason, item.red)


def _as_expired(item: Item, known: Known) -> Item:
    words = "; ".join(filter(None, (f"{known.ticket} expired on {known.expires}", item.words)))
    return Item("new", item.record, item.before, words, known.ticket, item.reason, item.red)


def _gone(before: CellRecord, phones: Collection[str]) -> Item:
    here = before.phone.id in phones
    return Item("gone", None, before, "not in this run's plan" if here else "its phone is not in this run")
