"""``news.json`` in the run folder: the news of a run as they were told, for whatever is made from the folder later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from harness.core.reasons import Fault
from harness.plan.known import Known
from harness.report.cells import cell_label
from harness.report.news import Item, News, State
from harness.report.text import one_line
from harness.store.frozen import Frozen
from harness.store.runfolder import write_atomically
from harness.store.schema import CellRecord

NEWS_FILE = "news.json"


class Told(Frozen):
    """One piece of news as it was told: see :class:`~harness.report.news.Item`.

    ``cell_id`` is that of the cell in this run; of a cell that is gone, the one it had. ``before`` is ``ok`` or the
    reason of then, ``None`` where nothing was compared.
    """

    state: State
    cell_id: str
    phone: str
    cell: str
    backend: str
    reason: str = ""
    fault: Fault | None = None
    before: str | None = None
    words: str = ""
    ticket: str | None = None
    red: bool = False


class NewsFile(Frozen):
    """The news of a run.

    ``against`` is the id of the run compared with (``None``: there was none) and ``folder`` its place; ``status`` is
    the run's exit status, ``unfinished`` how many cells have no final record yet.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    against: str | None = None
    folder: str | None = None
    status: int = 0
    unfinished: int = 0
    items: tuple[Told, ...] = ()
    stale: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def told(
    news: News,
    *,
    against: str | None = None,
    folder: str | None = None,
    status: int = 0,
    unfinished: int = 0,
    notes: Sequence[str] = (),
) -> NewsFile:
    """Return ``news`` as they are written, with the other fields of :class:`NewsFile`."""
    return NewsFile.model_validate(
        {
            "schema": 1,
            "against": against,
            "folder": folder,
            "status": status,
            "unfinished": unfinished,
            "items": tuple(_told(item) for item in news.items),
            "stale": tuple(_in_words(known) for known in news.stale),
            "expired": tuple(_in_words(known) for known in news.expired),
            "notes": tuple(notes),
        }
    )


def write_news(run_dir: Path, news: NewsFile) -> Path:
    """Write ``news.json``, whole or not at all; return where."""
    target = run_dir / NEWS_FILE
    write_atomically(target, news.model_dump_json(by_alias=True).encode() + b"\n")
    return target


def read_news(run_dir: Path) -> NewsFile | None:
    """Read ``news.json``; ``None`` where there is none, or none that this version reads."""
    try:
        return NewsFile.model_validate_json((run_dir / NEWS_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def _told(item: Item) -> Told:
    record = item.record if item.record is not None else item.before
    assert isinstance(record, CellRecord)  # noqa: S101  every item has one of them
    return Told(
        state=item.state,
        cell_id=record.cell_id,
        phone=one_line(record.phone.name),
        cell=cell_label(record),
        backend=record.config.backend,
        reason=item.reason,
        fault=item.fault if item.reason else None,
        before=(item.before.reason or "ok") if item.before is not None else None,
        words=one_line(item.words),
        ticket=one_line(item.ticket) if item.ticket is not None else None,
        red=item.red,
    )


def _in_words(known: Known) -> str:
    owner = f", {known.owner}" if known.owner else ""
    return one_line(f"{known.ticket} (until {known.expires}{owner}): {known.note}")
