"""What ``mnn-farm doctor`` finds on this computer, and how providers of phones add checks of their own.

A provider's check is an entry point of the group ``mnn_farm.doctor``: a function without arguments, returning findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal

from harness.core.errors import HarnessError

GROUP = "mnn_farm.doctor"


@dataclass(frozen=True)
class HostFinding:
    """One thing about this computer that stands in the way, and its fix.

    Attributes:
        code: for programs, e.g. ``adb_missing``.
        severity: ``error`` when runs cannot work, ``warning`` when they may fail or measure wrongly, else ``info``.
        title: one clause for people.
        detail: what was seen, with paths and versions.
        fix: what to do, as a command where there is one.
    """

    code: str
    severity: Literal["error", "warning", "info"]
    title: str
    detail: str
    fix: str


def provided_checks() -> Iterator[tuple[str, Callable[[], list[HostFinding]]]]:
    """Yield the checks that providers bring, by name.

    Raises:
        HarnessError: one is installed but cannot be loaded.
    """
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            yield point.name, point.load()
        except ImportError as error:
            raise HarnessError(f"the check {point.name!r} ({point.value}) cannot be loaded: {error}") from error
