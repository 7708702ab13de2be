"""What each phone is doing now, as workers tell it: into the run's log, which the controller follows.

All processes append to ``log.txt`` in the run folder (one short write a line, so lines do not mix).
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from harness.core.log import phone_logger

PROGRESS = "harness.progress"


class _LogFile(logging.FileHandler):
    """A log that a full disk cuts short: what else becomes of it is told by who writes records."""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def log_to(path: Path) -> logging.Handler:
    """Send everything that ``harness`` logs, from INFO up, to ``path``; return the handler."""
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("harness")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return handler


def teller(phone: str) -> Callable[[str], None]:
    """Return a function that logs what ``phone`` is doing now."""
    logger = phone_logger(PROGRESS, phone)

    def say(what: str) -> None:
        # One line, whatever a phone put into it.
        logger.info("%s", " ".join(what.split()))

    return say
