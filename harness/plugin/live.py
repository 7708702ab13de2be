"""What each phone is doing now, as the controller shows it: it follows the log that workers write.

On a terminal it is a table that is redrawn, otherwise plain lines.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.plugin.progress import PROGRESS

_LINE = re.compile(rf"^\S+ \S+ \w+ {re.escape(PROGRESS)}: \[(?P<phone>[^\]]+)\] (?P<what>.*)$")
_PERCENT = re.compile(r" \d+ %.*|: generation \d+ of \d+")
_POLL_S = 0.2


class Follower:
    """Follows ``log.txt`` in a thread and shows the latest word of each phone."""

    def __init__(
        self,
        path: Path,
        phones: list[str],
        total: dict[str, int],
        console: Console,
        *,
        lines: bool,
        waiting: str = "waiting",
    ) -> None:
        self._path = path
        # What an earlier start left in the file is not what phones do now.
        self._from = path.stat().st_size
        self._console = console
        self._lines = lines
        self._now = dict.fromkeys(phones, waiting)
        self._done = dict.fromkeys(phones, 0)
        self._total = total
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="mnn-farm live", daemon=True)

    def start(self) -> None:
        """Begin to follow; harmless twice."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Show the last state and end; harmless twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def finished(self, phone: str) -> None:
        """Count one cell of ``phone`` as done."""
        if phone in self._done:
            self._done[phone] += 1

    def _follow(self) -> None:
        with self._path.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._from)
            if self._console.is_terminal:
                with Live(self._table(), console=self._console, transient=True, auto_refresh=False) as live:
                    while not self._stop.is_set():
                        self._read(file.readlines())
                        live.update(self._table(), refresh=True)
                        self._stop.wait(_POLL_S)
            else:
                while not self._stop.is_set():
                    self._read(file.readlines())
                    self._stop.wait(_POLL_S)

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            match = _LINE.match(line.rstrip("\n"))
            if match is None or match["phone"] not in self._now:
                continue
            before = _PERCENT.sub("", self._now[match["phone"]])
            self._now[match["phone"]] = match["what"]
            # A plain log wants each step once, not every percent of it.
            if self._lines and not self._console.is_terminal and before != _PERCENT.sub("", match["what"]):
                self._console.print(Text(f"  {match['phone']}: {match['what']}"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False)
        for phone, what in self._now.items():
            share = f"{self._done[phone]}/{self._total.get(phone, 0)}"
            table.add_row(Text(phone, style="bold"), share, Text(what, overflow="ellipsis", no_wrap=True))
        table.add_row(Text("elapsed"), f"{time.monotonic() - self._begun:.0f} s", "")
        return table
