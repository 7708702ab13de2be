"""A phone without adb: its settings in tables, its files in a folder, its shell the computer's own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import PhoneLostError
from harness.core.transport import ShellResult
from harness.phone.ledger import FILE, Entry, parse_ledger

OK = ShellResult(0, b"", b"")
FRONT = b"    topResumedActivity=ActivityRecord{4a1 u0 org.toy.home/.Desk t9}\n"


class FakePhone:
    """Does what settings, dumpsys and input of a healthy phone do, as far as we use them.

    ``refuses`` maps the beginning of a command line to what it answers instead; ``limits`` maps a setting to the one
    value that the phone takes for it; ``lost_after`` is the number of commands after which it is gone.
    """

    name = "toy-1"
    serial = "SERIAL"

    def __init__(self, folder: Path) -> None:
        self.base_dir = str(folder)
        self.ledger = folder / FILE
        self.settings = {"global/stay_on_while_plugged_in": "0", "system/screen_off_timeout": "60000"}
        self.screen = "off"
        self.powered = True
        self.may_doze = {"deep", "light"}
        self.refuses: dict[str, ShellResult] = {}
        self.limits: dict[str, str] = {}
        self.lost_after: int | None = None
        self.commands: list[str] = []

    def deadline(self) -> Deadline:
        return Deadline(60, "the test", self.name)

    def state(self) -> dict[str, object]:
        return {**self.settings, "screen": self.screen, "may_doze": frozenset(self.may_doze)}

    def owed(self) -> list[tuple[str, str | None, str | None]]:
        entries: Sequence[Entry] = parse_ledger(self.ledger.read_bytes()) if self.ledger.exists() else ()
        return [(entry.name, entry.old, entry.new) for entry in entries]

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        deadline.remaining_s()
        argv = list(argv)
        line = " ".join(argv)
        if self.lost_after is not None and len(self.commands) >= self.lost_after:
            raise PhoneLostError(self.name, f"gone before {line}")
        self.commands.append(line)
        for start, result in self.refuses.items():
            if line.startswith(start):
                return result
        if argv[:2] == ["sh", "-c"] and "dumpsys activity" in argv[2]:
            return ShellResult(0, FRONT, b"")
        if argv[0] in ("sh", "rm", "mv"):
            done = subprocess.run(argv, input=stdin, capture_output=True, timeout=30, check=False)
            return ShellResult(done.returncode, done.stdout, done.stderr)
        return self._service(argv)

    def _service(self, argv: list[str]) -> ShellResult:
        if argv[:2] == ["settings", "get"]:
            return ShellResult(0, f"{self.settings.get('/'.join(argv[2:]), 'null')}\n".encode(), b"")
        if argv[:2] == ["settings", "put"]:
            key = "/".join(argv[2:4])
            self.settings[key] = self.limits.get(key, argv[4])
        elif argv[:2] == ["settings", "delete"]:
            self.settings.pop("/".join(argv[2:]), None)
        elif argv[:3] == ["cmd", "connectivity", "airplane-mode"]:
            self.settings["global/airplane_mode_on"] = "1" if argv[3] == "enable" else "0"
        elif argv[:3] == ["dumpsys", "deviceidle", "enabled"]:
            return ShellResult(0, b"1\n" if argv[3] in self.may_doze else b"0\n", b"")
        elif argv[:2] == ["dumpsys", "deviceidle"]:
            (self.may_doze.add if argv[2] == "enable" else self.may_doze.discard)(argv[3])
        elif argv == ["dumpsys", "power"]:
            word = "Awake" if self.screen == "on" else "Asleep"
            dump = f"  mWakefulness={word}\n  mIsPowered={str(self.powered).lower()}\n"
            return ShellResult(0, dump.encode(), b"")
        elif argv[:2] == ["input", "keyevent"]:
            self.screen = {"KEYCODE_WAKEUP": "on", "KEYCODE_SLEEP": "off"}[argv[2]]
        else:
            return ShellResult(127, b"", f"sh: {argv[0]}: not found".encode())
        return OK


@pytest.fixture
def phone(tmp_path: Path) -> FakePhone:
    """A phone that lies there with its screen off."""
    return FakePhone(tmp_path / "mnn-farm")
