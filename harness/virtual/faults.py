"""The faults a virtual phone can be given: their names, arguments, and what each of them means. Pure.

What is modelled and what is not is said here, for each; :mod:`harness.virtual.injector` does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.errors import ConfigError

Argument = int | float | str | None


@dataclass(frozen=True)
class Kind:
    """One fault. ``argument`` names what may follow ``=``, ``default`` is taken when nothing does."""

    name: str
    means: str
    argument: str = ""
    default: Argument = None
    needed: bool = False
    once: bool = False
    """It happens and is over; nothing is left to heal."""


_KINDS = (
    Kind("offline", "adbd takes connections and says nothing; adb lists the phone as offline"),
    Kind("unauthorized", "no key is accepted; heal accepts the key of the computer that waits, as a tap on Allow does"),
    Kind("cut", "the cable is pulled: gone from adb until heal, or for that long", "SECONDS"),
    Kind("cut-push", "the cable is pulled when that many bytes of files have come in", "BYTES", needed=True),
    Kind("cut-run", "the cable is pulled that long after the next shell command begins", "SECONDS", 0.5),
    Kind("reboot", "all processes end, new boot_id; back after that long (default 1)", "SECONDS", 1.0, once=True),
    Kind("full-disk", "new writes under /data get ENOSPC for adb and programs; open files escape", "BYTES", 0),
    Kind("read-only", "/data is remounted read-only; files that are open for writing escape"),
    Kind("noexec", "/data is remounted noexec: what is started anew is refused, what runs goes on"),
    Kind("slow", "the link carries that many bytes a second each way (default 1000000)", "BYTES", 1_000_000),
    Kind("stalled", "the link stays up and nothing moves on it"),
    Kind("exit-lost", "shells end without telling their exit code"),
    Kind("garbage", "shells print that many bytes that are no UTF-8 before their output (default 64)", "BYTES", 64),
    Kind("truncated", "of each shell's stdout only that many bytes arrive (default 0)", "BYTES", 0),
    Kind("clock-jumped", "`date` is that many seconds off (default 3600); system calls are not", "SECONDS", 3600.0),
    Kind("asleep", "unplugged, screen off, what runs stands still; the kernel's clocks go on"),
    Kind("sleeps-alone", "unplugged, screen off; what runs stands still while no adb shell is open", "SECONDS", 0.3),
    Kind("affinity-lost", "processes may soon use all cores again, whatever they asked for, as by a cpuset move"),
    Kind("detached-die", "what adb shells started is killed when the connection ends, detached or not"),
    Kind("adbd-restarted", "adbd ends and init starts it again; what detached itself lives on", once=True),
    Kind("thermal-shutdown", "the phone says so in its log and powers off; heal switches it on again"),
    Kind("corrupt", "a byte amid that file flips, default the largest in /data/local/tmp", "PATH", once=True),
    Kind("replaced", "another phone of the same ro.serialno with an empty /data, perhaps of that profile", "PROFILE"),
    Kind("lmkd-kill", "the largest process is killed with signal 9, and lmkd says so in logcat", once=True),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}
HEAL = "heal"


@dataclass(frozen=True)
class Fault:
    """A fault that was asked for."""

    kind: Kind
    argument: Argument

    def __str__(self) -> str:
        return self.kind.name if self.argument is None else f"{self.kind.name}={self.argument}"

    @property
    def number(self) -> float:
        """The argument as a number; 0 without one."""
        return self.argument if isinstance(self.argument, int | float) else 0

    @property
    def count(self) -> int:
        """The argument as a number of bytes."""
        return int(self.number)


def parse_fault(text: str) -> Fault:
    """Read ``NAME`` or ``NAME=ARGUMENT``.

    Raises:
        ConfigError: there is no such fault, or its argument is missing or wrong.
    """
    name, equals, word = text.partition("=")
    kind = KINDS.get(name)
    if kind is None:
        raise ConfigError(f"no fault is called {name!r}", remedy=f"choose one of {', '.join(KINDS)}, {HEAL}")
    if not equals:
        if kind.needed:
            raise ConfigError(f"the fault {name} needs an argument", remedy=f"say {name}={kind.argument}")
        return Fault(kind, kind.default)
    if not kind.argument:
        raise ConfigError(f"the fault {name} takes no argument, {word!r} was given", remedy=f"say {name}")
    argument = _READERS[kind.argument](word)
    if argument is None:
        raise ConfigError(f"{text}: {word!r} is no {_WORDS[kind.argument]}", remedy=f"say {name}={kind.argument}")
    return Fault(kind, argument)


def _bytes(word: str) -> Argument:
    return int(word) if re.fullmatch(r"[0-9]{1,15}", word) else None


def _seconds(word: str) -> Argument:
    return float(word) if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,6})?", word) else None


def _path(word: str) -> Argument:
    return word if word.startswith("/") and "\0" not in word and len(word) < 1024 else None


def _profile(word: str) -> Argument:
    return word if re.fullmatch(r"[a-z][a-z0-9-]{0,31}", word) else None


_READERS: dict[str, Callable[[str], Argument]] = {
    "BYTES": _bytes, "SECONDS": _seconds, "PATH": _path, "PROFILE": _profile,
}  # fmt: skip
_WORDS = {
    "BYTES": "number of bytes", "SECONDS": "number of seconds", "PATH": "absolute path on the phone",
    "PROFILE": "name of a phone description",
}  # fmt: skip
