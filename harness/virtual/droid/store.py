"""What the services know: the phone's description, its state now, and what commands asked for since.

``/mnt/vendor/now`` is written by the outside and read-only here; ``/mnt/asked`` is ours. A request carries a number:
until the state includes it, commands answer as if it were done already, so that nobody has to wait for the loop.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys

TYPE_CHECKING = False  # importing typing takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

NOW_FOLDER = "/mnt/vendor/now"
ASKED_FOLDER = "/mnt/asked"
SETTINGS_FILE = "/data/system/users/0/settings.json"

Table = dict[str, "Any"]

# Settings that mean something to the phone -> what is then asked for, in numbers.
EFFECTS = {"screen_off_timeout": "screen_off_timeout_ms", "stay_on_while_plugged_in": "stay_on"}


def read_table(path: str) -> Table:
    """Return a JSON object; empty if the file is not there or damaged."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib doubles the time to start
            table = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def write_table(path: str, table: Table) -> None:
    """Replace a file by a JSON object."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(table, file)
    os.replace(f"{path}.new", path)  # noqa: PTH105


class locked:  # noqa: N801  it reads as what it does
    """Keep other commands out while a file is read and written again."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)


class Store:
    """The tables of one phone."""

    def __init__(
        self, now_folder: str = NOW_FOLDER, asked_folder: str = ASKED_FOLDER, settings_file: str = SETTINGS_FILE
    ) -> None:
        self._asked_path = f"{asked_folder}/asked.json"
        self._settings_path = settings_file
        self.spec = read_table(f"{now_folder}/spec.json")
        self.now: Table = read_table(f"{now_folder}/now.json") or self.spec.get("now", {})
        self.asked = read_table(self._asked_path)
        if not self.asked:
            self._take_up_settings()

    def _take_up_settings(self) -> None:
        """After a boot nothing is asked for yet: settings, which outlive it, take effect again."""
        held = [space for space in self.settings().values() if isinstance(space, dict)]
        known = {EFFECTS[key]: value for space in held for key, value in space.items() if key in EFFECTS}
        effects = {key: int(value) for key, value in known.items() if isinstance(value, str) and value.isdigit()}
        if effects:
            self.ask(lambda table: table.update(effects))

    @property
    def sdk(self) -> int:
        """The phone's API level."""
        return int(self.spec["sdk"])

    def ask(self, change: Callable[[Table], None]) -> None:
        """Change what is asked for; the number tells the outside that it is new."""
        with locked(self._asked_path):
            table = read_table(self._asked_path)
            if int(table.get("number", 0)) <= self.now.get("asked", 0):
                table.pop("wakefulness", None)  # a key press counts once, and not before it was seen outside
            change(table)
            table["number"] = int(table.get("number", 0)) + 1
            write_table(self._asked_path, table)
            self.asked = table

    @property
    def wakefulness(self) -> str:
        """``Awake``, ``Asleep`` or ``Dozing``."""
        wanted = self.asked.get("wakefulness")
        if isinstance(wanted, str) and self.asked.get("number", 0) > self.now.get("asked", 0):
            return wanted
        return str(self.now.get("wakefulness", "Awake"))

    def battery(self) -> Table:
        """The battery as its service tells it: overrides win while somebody holds them."""
        return {**self.now["battery"], **self.asked.get("battery", {})}

    def settings(self) -> Table:
        """All settings by name space."""
        return read_table(self._settings_path)

    def change_settings(self, change: Callable[[Table], None]) -> None:
        """Change settings; they outlive a reboot."""
        os.makedirs(os.path.dirname(self._settings_path), exist_ok=True)  # noqa: PTH103, PTH120
        with locked(self._settings_path):
            table = read_table(self._settings_path)
            change(table)
            write_table(self._settings_path, table)


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(f"{text}\n")
