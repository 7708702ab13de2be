"""Running virtual phones from outside: which there are, their faults, their end. For the command line and tests."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir
from harness.virtual.faults import HEAL, parse_fault
from harness.virtual.orders import give_order

_DOWN_SECONDS = 15.0


@dataclass(frozen=True)
class PhoneInfo:
    """A running phone. ``serial`` is the one adb lists, ``adb_port`` its server's."""

    name: str
    profile: str
    model: str
    serial: str
    adb_port: int
    supervisor_pid: int
    detached: bool
    """Whether it was brought up by ``mnn-farm virtual up`` and not by a program that still runs."""
    on: bool
    faults: tuple[str, ...]


def _info(answer: dict[str, Any]) -> PhoneInfo:
    return PhoneInfo(**{**answer, "faults": tuple(answer["faults"])})


class PhoneControl:
    """The handle of one running phone, by its name (``virtual-high-1``)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path: Path = cache_dir("virtual") / name / "control"

    def info(self) -> PhoneInfo:
        """Return what it is.

        Raises:
            ConfigError: no phone of this name is up.
        """
        return _info(self._order({"do": "info"}))

    def inject(self, fault: str) -> PhoneInfo:
        """Give it a fault, ``NAME`` or ``NAME=ARGUMENT``, as in :mod:`harness.virtual.faults`.

        Raises:
            ConfigError: no such phone is up, there is no such fault or its argument is wrong.
            HostError: it could not be done.
        """
        if fault != HEAL:
            parse_fault(fault)
        return _info(self._order({"do": "fault", "fault": fault}))

    def heal(self) -> PhoneInfo:
        """Take all faults back and return when adb can use the phone again.

        Raises:
            ConfigError: no such phone is up.
            HostError: it does not come back.
        """
        return self.inject(HEAL)

    def down(self, *, keep_data: bool = False) -> None:
        """Take it down and wait until it is gone.

        Raises:
            ConfigError: no such phone is up.
            HostError: it belongs to a running program, or does not end.
        """
        info = _info(self._order({"do": "down", "keep_data": keep_data}))
        siblings = [phone for phone in running_phones() if phone.supervisor_pid == info.supervisor_pid]
        if not siblings:
            _wait_for_end(info)

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        if "/" not in self.name:
            try:
                return give_order(self._path, order)
            except (FileNotFoundError, ConnectionError):
                pass  # said below
        names = ", ".join(phone.name for phone in running_phones()) or "none; mnn-farm virtual up 1 starts one"
        raise ConfigError(f"no virtual phone called {self.name!r} is up", remedy=f"those that are: {names}")


def running_phones() -> list[PhoneInfo]:
    """Return all phones of this cache that are up, by name."""
    found = []
    for path in sorted(cache_dir("virtual").glob("virtual-*/control")):
        try:
            found.append(_info(give_order(path, {"do": "info"})))
        except (FileNotFoundError, ConnectionError):
            continue  # left behind by a supervisor that was killed, or going down
    return found


def find_phone(word: str) -> PhoneControl:
    """Return the phone called ``word``, or listed by adb under that serial.

    Raises:
        ConfigError: there is none; the message names those that are up.
    """
    names = {phone.serial: phone.name for phone in running_phones()}
    return PhoneControl(names.get(word, word))


def _wait_for_end(info: PhoneInfo) -> None:
    try:
        pidfd = os.pidfd_open(info.supervisor_pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([pidfd], [], [], _DOWN_SECONDS)[0]:
            raise HostError(
                f"the supervisor of {info.name} did not end in {_DOWN_SECONDS:g} s",
                remedy=f"end process {info.supervisor_pid}",
            )
    finally:
        os.close(pidfd)
