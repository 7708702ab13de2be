"""``--against`` and ``--known``: what a run is held against, and what comes of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.plan.known import KNOWN_FILE, Known, load_known
from harness.report.news import News, news_of
from harness.report.news_against import check_word
from harness.report.news_file import NewsFile, told

if TYPE_CHECKING:
    from harness.plugin.run import Run
    from harness.store.head import RunInfo
    from harness.store.schema import CellRecord


def read_against(config: pytest.Config, head: RunInfo | None) -> str | None:
    """Return what ``--against`` says, at this start of the run or at its first; ``None`` if nothing.

    Raises:
        ConfigError: it names no run.
    """
    word: str | None = config.getoption("against") or (head.against if head is not None else None)
    if word is not None:
        run_dir = config.getoption("run_dir")
        check_word(word, Path(run_dir).parent if run_dir else config.invocation_params.dir / "reports")
    return word


def read_known(config: pytest.Config) -> tuple[Known, ...]:
    """Return the known issues: those of ``--known``, else those in pytest's root folder, if any.

    Raises:
        ConfigError: the file cannot be read or says something that is not allowed.
    """
    given, usual = config.getoption("known"), config.rootpath / KNOWN_FILE
    if given:
        return load_known(Path(given))
    return load_known(usual) if usual.is_file() else ()


def news_of_run(run: Run, records: list[CellRecord]) -> News:
    """Return the news of a run's records, on this computer's day."""
    return news_of(
        records,
        run.against.records if run.against is not None else None,
        run.request.known,
        datetime.now().astimezone().date(),
        planned={bound.cell_id for bound in run.planned},
        shared=run.shared_phones,
    )


def told_of_run(run: Run, news: News, *, status: int, unfinished: int) -> NewsFile:
    """Return the news as the run folder keeps them."""
    against = run.against
    return told(
        news,
        against=against.run_id if against is not None else None,
        folder=against.folder if against is not None else None,
        status=status,
        unfinished=unfinished,
        notes=run.passed_over,
    )
