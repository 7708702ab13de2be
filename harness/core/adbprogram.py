"""Where the adb program is: the one in PATH, or the one that the package adbutils carries."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

from harness.core.errors import HostError

_ASK_VERSION_S = 10.0


def find_adb(*, carried_first: bool = False) -> Path:
    """Return an adb program that runs.

    The user's own server should be started by the user's own adb, so PATH comes first; a private server takes the
    carried one, whose version is known.

    Raises:
        HostError: there is none.
    """
    spec = importlib.util.find_spec("adbutils")
    carried = Path(spec.origin).parent / "binaries" / "adb" if spec is not None and spec.origin else None
    in_path = shutil.which("adb")
    candidates = [Path(in_path) if in_path else None, carried]
    for candidate in reversed(candidates) if carried_first else candidates:
        if candidate is not None and _runs(candidate):
            return candidate
    raise HostError(
        "no adb that runs was found, neither in PATH nor in the package adbutils",
        remedy="install Android platform-tools (Debian: apt-get install adb)",
    )


def adb_word() -> str:
    """Return how a person calls adb on this computer: by its name, or by its path where it is not in PATH."""
    if shutil.which("adb") is not None:
        return "adb"
    try:
        return str(find_adb())
    except HostError:
        return "adb"


def _runs(adb: Path) -> bool:
    # `adb version` asks no server and starts none.
    try:
        done = subprocess.run([str(adb), "version"], capture_output=True, timeout=_ASK_VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
