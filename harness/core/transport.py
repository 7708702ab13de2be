"""How a phone is reached: run a command, push, pull. One interface for adb and for phones that are not on adb.

Commands are argument lists; whoever implements this quotes them. What comes back is bytes: a phone may send anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.core.deadline import Deadline
from harness.core.errors import ShellError

STDOUT = 1
STDERR = 2

USABLE = "device"
ABSENT = "absent"


@dataclass(frozen=True)
class ShellResult:
    """What a command on the phone left."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class PushItem:
    """One file to push: from ``local`` to ``remote`` with permission bits ``mode``.

    With ``offset`` and ``length`` only that part of ``local`` becomes the file ``remote``; without a length all from
    there on.
    """

    local: Path
    remote: str
    mode: int = 0o644
    offset: int = 0
    length: int | None = None


class ShellStream(Protocol):
    """A running command on the phone."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(fd, chunk)`` as it comes; ends when the command ended."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Exit code once the iteration has ended."""
        ...


class Conversation(Protocol):
    """A running command on the phone that is talked to: orders in, lines of answers out."""

    def say(self, data: bytes) -> None:
        """Send to its stdin, all of ``data``."""
        ...

    def hear(self, *, wait: bool) -> list[bytes]:
        """Return the lines it printed since the last call, without their ends.

        With ``wait`` at least one, unless the command has ended.
        """
        ...

    @property
    def result(self) -> ShellResult | None:
        """What it left when it has ended: exit code, a torn last line, stderr. ``None`` while it runs."""
        ...


# Called with the number of bytes sent since the last call.
Progress = Callable[[int], None]
# Called with each item once the phone has said that it has it whole.
Arrived = Callable[[PushItem], None]


class Transport(Protocol):
    """One phone, reached.

    All methods raise :class:`~harness.core.errors.PhoneError` and nothing else when phone or connection fail, and
    :class:`~harness.core.errors.DeadlineError` when ``deadline`` passes.
    """

    @property
    def name(self) -> str:
        """The phone's name for people."""
        ...

    @property
    def serial(self) -> str:
        """The serial by which its connection lists it."""
        ...

    @property
    def base_dir(self) -> str:
        """The one folder of ours on the phone, without a trailing slash."""
        ...

    @property
    def server(self) -> tuple[str, int] | None:
        """The adb server's ``(host:port, version)``; ``None`` when adb is not involved."""
        ...

    def shell(
        self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"", most: int | None = None
    ) -> ShellResult:
        """Run a command and wait for it. A non-zero exit code is a result, not an error.

        Of a stdout that is longer than ``most`` bytes only begin and end are kept (:mod:`harness.core.kept`).
        """
        ...

    def stream(
        self, argv: Sequence[str], *, deadline: Deadline, idle_s: float | None = None
    ) -> AbstractContextManager[ShellStream]:
        """Run a command and hand over its output as it comes; leaving the context hangs up.

        When nothing comes for ``idle_s`` the deadline counts as passed.
        """
        ...

    def converse(self, argv: Sequence[str], *, deadline: Deadline) -> AbstractContextManager[Conversation]:
        """Run a command and talk to it; leaving the context hangs up.

        When it prints nothing for as long as a dead link takes to be noticed, the deadline counts as passed.
        """
        ...

    def push(
        self,
        items: Iterable[PushItem],
        *,
        deadline: Deadline,
        progress: Progress | None = None,
        arrived: Arrived | None = None,
    ) -> None:
        """Push files; missing parent folders are made.

        Items are taken one at a time as the link has room for them, and arrive in that order.

        Raises:
            TransferError: a file was refused (reason tells full and read-only from the rest).
        """
        ...

    def pull(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """Pull one file to ``local``, which appears whole or not at all.

        Raises:
            TransferError: the phone has no such file or does not give it.
        """
        ...

    def state(self) -> str:
        """Return how its connection lists the phone now: :data:`USABLE`, :data:`ABSENT`, or adb's word for it.

        Raises:
            AdbFailedError: nobody is there to ask.
        """
        ...

    def reconnect(self, *, deadline: Deadline) -> None:
        """Do what can be done from here to get the connection back, for this phone alone. It need not succeed."""
        ...

    def reboot(self, *, deadline: Deadline) -> None:
        """Restart the phone.

        Raises:
            PhoneError: it cannot be restarted this way.
        """
        ...


def checked(result: ShellResult, phone: str, argv: Sequence[str]) -> ShellResult:
    """Return ``result`` if its exit code is 0.

    Raises:
        ShellError: it is not.
    """
    if result.exit_code != 0:
        raise ShellError(phone, argv, result.exit_code, result.stdout, result.stderr)
    return result
