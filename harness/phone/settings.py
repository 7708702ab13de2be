"""The kinds of things we change on a phone: how each is read and written. The phone may refuse any of it.

Whether a change took is never told by an exit code (old ``settings`` and ``am`` end with 0 and a stack trace), so
every value is read back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from harness.core.deadline import Deadline
from harness.core.transport import ShellResult, Transport
from harness.phone.power import parse_doze_enabled, parse_power

STAY_ON = "global/stay_on_while_plugged_in"
SCREEN_TIMEOUT = "system/screen_off_timeout"
ANIMATIONS = (
    "global/window_animation_scale",
    "global/transition_animation_scale",
    "global/animator_duration_scale",
)
_AIRPLANE = "airplane_mode_on"
# The longest that one command of a healthy phone takes; `input` and `settings` start a Java program on old ones.
COMMAND_S = 30.0
_SETTLE_TRIES, _SETTLE_POLL_S = 10, 0.3
_EXCEPTION = re.compile(r"^.*\b\w*(?:Exception|Error):.*$", re.MULTILINE)
# Phones of these makers take settings and key events from adb only after this switch.
_SECURITY_SETTINGS = re.compile(r"WRITE_SECURE_SETTINGS|INJECT_EVENTS|WRITE_SETTINGS")
_SWITCH = "switch on 'USB debugging (Security settings)' in its developer options"


class RefusedError(Exception):
    """The phone does not do what was asked; the message says what it said."""


class UnreadableError(RefusedError):
    """What the phone has now cannot be told; a change before may have been made."""


class Commands:
    """Runs commands on one phone, each with a deadline of its own."""

    def __init__(
        self, transport: Transport, deadline: Deadline, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._transport = transport
        self._deadline = deadline
        self.sleep = sleep

    def run(self, *argv: str) -> ShellResult:
        """Run one command.

        Raises:
            PhoneError: the phone was lost, or the command did not end in time.
        """
        return self._transport.shell(argv, deadline=self._deadline.within(COMMAND_S, " ".join(argv)))


class Kind(Protocol):
    """One kind of change. Values are text as the phone says it; ``None`` means that there is none."""

    settles: bool
    """Whether the phone needs a moment until the new value can be read."""

    def knows(self, key: str) -> bool:
        """Whether ``key`` is one of ours: a ledger comes from the phone and is not to be trusted with others."""
        ...

    def read(self, phone: Commands, key: str) -> str | None:
        """Return the value now.

        Raises:
            UnreadableError: the phone does not tell.
        """
        ...

    def write(self, phone: Commands, key: str, value: str | None) -> ShellResult:
        """Ask for a value; whether the phone did it shows when it is read."""
        ...


class AndroidSetting:
    """A setting in the system's own table; ``key`` is ``NAMESPACE/NAME``. It outlives a reboot."""

    settles = False

    def knows(self, key: str) -> bool:
        """See :class:`Kind`."""
        return key in (STAY_ON, SCREEN_TIMEOUT, *ANIMATIONS)

    def read(self, phone: Commands, key: str) -> str | None:
        """See :class:`Kind`."""
        space, name = key.split("/")
        return _read_setting(phone, space, name)

    def write(self, phone: Commands, key: str, value: str | None) -> ShellResult:
        """See :class:`Kind`."""
        space, name = key.split("/")
        return _write_setting(phone, space, name, value)


class Airplane:
    """Airplane mode, ``1`` or ``0``; ``key`` is ``mode``. It outlives a reboot.

    ``cmd connectivity`` knows it since Android 9. Before, the setting says what should be and a broadcast makes it so,
    which Android 7 and 8 refuse to the shell.
    """

    settles = False

    def knows(self, key: str) -> bool:
        """See :class:`Kind`."""
        return key == "mode"

    def read(self, phone: Commands, key: str) -> str | None:
        """See :class:`Kind`."""
        return _read_setting(phone, "global", _AIRPLANE)

    def write(self, phone: Commands, key: str, value: str | None) -> ShellResult:
        """See :class:`Kind`."""
        on = value == "1"
        done = phone.run("cmd", "connectivity", "airplane-mode", "enable" if on else "disable")
        # Services without such a command say so and end with 0.
        now = self.read(phone, key)
        if same(now, "1" if on else "0"):
            return done
        _write_setting(phone, "global", _AIRPLANE, value)
        state = ("--ez", "state", "true" if on else "false")
        told = phone.run("am", "broadcast", "-a", "android.intent.action.AIRPLANE_MODE", *state)
        if told.exit_code != 0 or _EXCEPTION.search(_text(told)):
            # The radios were not told: a setting that says otherwise would be a lie.
            _write_setting(phone, "global", _AIRPLANE, now)
        return told


class Doze:
    """Whether the phone may doze, ``1`` or ``0``; ``key`` is ``deep`` or ``light``. A reboot allows it again."""

    settles = False

    def knows(self, key: str) -> bool:
        """See :class:`Kind`."""
        return key in ("deep", "light")

    def read(self, phone: Commands, key: str) -> str | None:
        """See :class:`Kind`."""
        said = phone.run("dumpsys", "deviceidle", "enabled", key)
        enabled = parse_doze_enabled(said.stdout)
        if enabled is None:
            raise UnreadableError(what_it_said(said))
        return "1" if enabled else "0"

    def write(self, phone: Commands, key: str, value: str | None) -> ShellResult:
        """See :class:`Kind`."""
        return phone.run("dumpsys", "deviceidle", "enable" if value == "1" else "disable", key)


class Screen:
    """The screen, ``on`` or ``off``; ``key`` is ``state``."""

    settles = True

    def knows(self, key: str) -> bool:
        """See :class:`Kind`."""
        return key == "state"

    def read(self, phone: Commands, key: str) -> str | None:
        """See :class:`Kind`."""
        said = phone.run("dumpsys", "power")
        screen = parse_power(said.stdout).screen
        if screen is None:
            raise UnreadableError(what_it_said(said))
        return screen

    def write(self, phone: Commands, key: str, value: str | None) -> ShellResult:
        """See :class:`Kind`."""
        return phone.run("input", "keyevent", "KEYCODE_WAKEUP" if value == "on" else "KEYCODE_SLEEP")


KINDS: dict[str, Kind] = {"setting": AndroidSetting(), "airplane": Airplane(), "doze": Doze(), "screen": Screen()}


def same(one: str | None, other: str | None) -> bool:
    """Whether two values mean the same: some phones say ``0.0`` for a ``0`` that they were given."""
    if one == other:
        return True
    try:
        return one is not None and other is not None and float(one) == float(other)
    except ValueError:
        return False


def change(kind: Kind, phone: Commands, key: str, value: str | None, before: str | None) -> str | None:
    """Write a value and return what the phone has now, which may be a third value (some phones have limits).

    Raises:
        RefusedError: the phone kept ``before``.
        UnreadableError: it does not tell what it has now.
        PhoneError: the phone was lost.
    """
    asked = kind.write(phone, key, value)
    now = kind.read(phone, key)
    for _ in range(_SETTLE_TRIES if kind.settles else 0):
        if not same(now, before):
            break
        phone.sleep(_SETTLE_POLL_S)
        now = kind.read(phone, key)
    if same(now, before):
        raise RefusedError(f"it stayed {'unset' if before is None else before} ({what_it_said(asked)})")
    return now


def what_it_said(result: ShellResult) -> str:
    """Return the line of a command's output that tells why it failed."""
    text = _text(result)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    exception = _EXCEPTION.search(text)
    line = exception[0].strip() if exception else lines[-1] if lines else f"exit code {result.exit_code}, not a word"
    return f"{line[:200]}; {_SWITCH}" if _SECURITY_SETTINGS.search(text) else line[:200]


def _text(result: ShellResult) -> str:
    return (result.stderr + b"\n" + result.stdout).decode("utf-8", "replace")


def _read_setting(phone: Commands, space: str, name: str) -> str | None:
    said = phone.run("settings", "get", space, name)
    line = said.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
    value = line.removesuffix("\n")
    # A command that failed may say nothing, or a stack trace, and end with 0; a line without its end is half a value.
    if said.exit_code != 0 or value == line or not value.isprintable() or "\ufffd" in value:
        raise UnreadableError(what_it_said(said))
    return None if value == "null" else value


def _write_setting(phone: Commands, space: str, name: str, value: str | None) -> ShellResult:
    if value is None:
        return phone.run("settings", "delete", space, name)
    return phone.run("settings", "put", space, name, value)


def known(kind: str, key: str) -> bool:
    """Whether this version can read and write it."""
    return kind in KINDS and KINDS[kind].knows(key)


def over_the_air(serial: str) -> bool:
    """Whether adb reaches the phone through the phone's own network, which airplane mode would end."""
    host, colon, port = serial.rpartition(":")
    by_address = bool(colon) and port.isdigit() and host not in ("127.0.0.1", "localhost", "[::1]")
    return by_address or "._adb-tls-connect._tcp" in serial


def foreground_argv() -> Sequence[str]:
    """Return the command whose output :func:`~harness.phone.power.parse_foreground` reads."""
    wanted = "ResumedActivity|mFocused(App|Activity)|mCurrentFocus"
    return ["sh", "-c", f"{{ dumpsys activity activities; dumpsys window; }} 2>/dev/null | grep -E '{wanted}'"]
