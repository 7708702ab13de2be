"""What this PC lends its phones: interpreter, shell and tools. All of it is read-only inside."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HostError
from harness.virtual.sandbox import Mount, bind
from harness.virtual.tree import APPLETS

_BASE = "/system/python/base"
_USR = Path("/usr")


@dataclass(frozen=True)
class Python:
    """The interpreter as the phone has it: how to start it, its path, and what must be mounted for it."""

    command: str
    path: str
    mounts: tuple[Mount, ...]


@dataclass(frozen=True)
class Tools:
    """Programs for ``/system/bin``, by real path, because links through ``/etc`` do not work inside."""

    shell: str
    toybox: str | None
    toybox_applets: frozenset[str]
    others: dict[str, str]


def find_python() -> Python:
    """Describe the interpreter that runs us, with the packages of its environment.

    Raises:
        HostError: it lies in no folder that could be mounted.
    """
    base = Path(sys.base_prefix).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (base / "bin" / version).is_file():
        raise HostError(f"{base}/bin/{version} is not there", remedy="run with a usual Python installation")
    mounts: list[Mount] = []
    inside = str(base)
    if not base.is_relative_to(_USR):
        inside = _BASE
        mounts.append(bind(base, _BASE))
    sites = []
    for number, folder in enumerate(_package_folders()):
        mounts.append(bind(folder, f"/system/python/site{number}"))
        sites.append(f"/system/python/site{number}")
    # A shared libpython is found by a run path that does not hold inside.
    command = f"{inside}/bin/{version}"
    if any((base / "lib").glob("libpython*.so*")) and inside == _BASE:
        command = f"env LD_LIBRARY_PATH={_BASE}/lib {command}"
    return Python(command, ":".join(sites), tuple(mounts))


def _package_folders() -> Iterator[Path]:
    for entry in dict.fromkeys(Path(entry).resolve() for entry in sys.path if entry):
        if entry.name in ("site-packages", "dist-packages") and entry.is_dir():
            yield entry


def find_tools() -> Tools:
    """Find shell and tools: mksh and toybox where installed, else what this PC has.

    Raises:
        HostError: there is not even a shell.
    """
    shell = _program("mksh") or _program("sh")
    if shell is None:
        raise HostError("no shell was found in /usr/bin", remedy="install mksh")
    toybox = _program("toybox")
    applets: frozenset[str] = frozenset()
    if toybox is not None:
        listed = subprocess.run([toybox], capture_output=True, check=False, timeout=10, text=True)
        applets = frozenset(listed.stdout.split())
    others = {name: path for name in APPLETS if (path := _program(name))}
    return Tools(shell, toybox, applets, others)


def _program(name: str) -> str | None:
    """Return the real path of a program under ``/usr``, the only place of programs inside."""
    found = shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin:/bin")
    if found is None:
        return None
    path = Path(found).resolve()
    return str(path) if path.is_relative_to(_USR) else None
