"""How adbd is to behave at the moment: what the phone's maker made of it, and the faults that were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """All that can be told to adbd. The defaults are a phone without authentication and without faults."""

    auth: bool = False
    keys: tuple[str, ...] = ()
    """Accepted public keys, as in ``adbkey.pub`` without the comment. Looked at only with ``auth``."""
    terminal_always: bool = False
    """Android 6: also a shell with a command gets a terminal, so lines end in CR LF."""
    mute: bool = False
    """Connections are taken, nothing is ever said."""
    stalled: bool = False
    """Connections stay, nothing moves on them."""
    bytes_per_s: int | None = None
    cut_push_bytes: int | None = None
    cut_run_s: float | None = None
    lose_exit_code: bool = False
    garbage_bytes: int = 0
    truncate_bytes: int | None = None
    detached_die: bool = False
    """The end of a connection is the end of all that was ever started over one."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Condition:
        """Read what the supervisor sent."""
        return cls(**{**table, "keys": tuple(table.get("keys", ()))})


class CutError(Exception):
    """The cable was pulled by a fault."""


class Link:
    """The condition as all parts of adbd share it. One link carries everything, so its pace is kept here too."""

    def __init__(self, tell: Callable[[str], None], cut: Callable[[], None]) -> None:
        """Begin without faults.

        Args:
            tell: tells the supervisor what happened, by one word.
            cut: ends all connections.
        """
        self.now = Condition()
        self.tell = tell
        self._cut = cut
        self._pushed = 0
        self._free_at = {"in": 0.0, "out": 0.0}
        self._moving = asyncio.Event()
        self._moving.set()
        self.changed = asyncio.Event()
        """Set at each change; whoever waits for it clears it."""

    def change(self, condition: Condition) -> None:
        """Behave like this from now on."""
        self.now = condition
        self._pushed = 0
        self._free_at = dict.fromkeys(self._free_at, 0.0)
        if condition.stalled:
            self._moving.clear()
        else:
            self._moving.set()
        self.changed.set()

    async def pass_link(self, direction: str, count: int) -> None:
        """Wait as long as ``count`` bytes take on the link: not at all, usually."""
        if not self._moving.is_set():
            await self._moving.wait()
        rate = self.now.bytes_per_s
        if rate is not None:
            loop = asyncio.get_running_loop()
            start = max(loop.time(), self._free_at[direction])
            self._free_at[direction] = start + count / rate
            await asyncio.sleep(self._free_at[direction] - loop.time())

    def count_pushed(self, count: int) -> None:
        """Note received file bytes.

        Raises:
            CutError: the cable was to be pulled here.
        """
        limit = self.now.cut_push_bytes
        if limit is not None:
            self._pushed += count
            if self._pushed >= limit:
                self.cut()
                raise CutError

    async def cut_in_time(self) -> None:
        """Pull the cable the fault's time after a run began; return at once without that fault."""
        if self.now.cut_run_s is not None:
            await asyncio.sleep(self.now.cut_run_s)
            self.cut()

    def cut(self) -> None:
        """Pull the cable; only the supervisor can plug it in again."""
        self._cut()  # first: the supervisor shuts the same door, and a socket must not be shut twice
        self.tell("cut")


class Output:
    """What the faults make of the stdout of one shell."""

    def __init__(self, condition: Condition) -> None:
        self._left = condition.truncate_bytes
        self._first = garbage(condition.garbage_bytes)

    def __call__(self, data: bytes) -> bytes:
        """Return what arrives of ``data``."""
        data, self._first = self._first + data, b""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data


def garbage(count: int) -> bytes:
    """Return bytes that are no UTF-8 and no text: lone continuation bytes, 0xFF, NUL, escape sequences."""
    pattern = b"\xff\xfe\x80\xbf\x00\x1b[2J\xc3(\xed\xa0\x80\r"
    return (pattern * (count // len(pattern) + 1))[:count]
