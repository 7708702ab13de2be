"""A description of this computer: all that checks look at goes through it, so that tests can show them any other."""

from __future__ import annotations

import grp
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.resources import cache_dir


@dataclass(frozen=True)
class Ran:
    """How a program ended: its exit code (negative: the signal), or why there is none."""

    exit_code: int | None
    stdout: str
    stderr: str
    problem: str = ""

    @property
    def says(self) -> str:
        """Why it failed, in a few words."""
        if self.problem:
            return self.problem
        last = (self.stderr or self.stdout).strip().splitlines()[-1:]
        code = self.exit_code or 0
        how = f"ended by {_signal_name(-code)}" if code < 0 else f"exit code {code}"
        return f"{how}: {last[0][:200]}" if last else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# With nonsense in these adb does not even tell its version; that they make sense is a check of its own.
_NOT_FOR_PROGRAMS = ("ANDROID_ADB_SERVER_PORT", "ANDROID_ADB_SERVER_ADDRESS", "ADB_SERVER_SOCKET")


def run_program(argv: Sequence[str], seconds: float) -> Ran:
    """Run a program without input and without what moves the adb server; one that does not end in time is killed."""
    env = {key: value for key, value in os.environ.items() if key not in _NOT_FOR_PROGRAMS}
    try:
        done = subprocess.run(
            argv,
            env=env,
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return Ran(None, "", "", f"it did not end in {seconds:g} s")
    except OSError as error:
        return Ran(None, "", "", str(error.strerror or error))
    return Ran(done.returncode, done.stdout, done.stderr)


def may_use(path: Path) -> bool:
    """Return whether we may read and write ``path``."""
    return os.access(path, os.R_OK | os.W_OK)


def free_bytes(path: Path) -> int | None:
    """Return the free bytes where ``path`` lies or would lie, ``None`` when that cannot be told."""
    there = next((folder for folder in (path, *path.parents) if folder.is_dir()), None)
    try:
        return None if there is None else shutil.disk_usage(there).free
    except OSError:
        return None


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, ``None`` if it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _requirements() -> tuple[str, ...]:
    try:
        required = importlib.metadata.requires("mnn-farm") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(line for line in required if "extra ==" not in line)


def _carried_adb() -> Path | None:
    spec = importlib.util.find_spec("adbutils")
    return Path(spec.origin).parent / "binaries" / "adb" if spec is not None and spec.origin else None


def _my_groups() -> frozenset[str]:
    names = set()
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(names)


def _my_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


@dataclass(frozen=True)
class Host:
    """This computer, or one of a test's making.

    Attributes:
        environ: environment variables.
        home: where ``.android`` lies.
        user, groups: who we are, and the groups of this process (not those a new login would have).
        sys_root, dev_root, proc_root: roots of these file systems.
        rules: folders of udev rules.
        cache, reports, temp: where we write.
        carried_adb: the adb of the package adbutils.
        python: this interpreter, and ``python_version`` its version.
        requirements: what our package requires, as ``name>=version``.
        installed: the version of an installed package.
        run: runs a program with a deadline in seconds.
        may_use: whether a path may be read and written by us.
        free: free bytes at a path.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    home: Path = field(default_factory=Path.home)
    user: str = field(default_factory=_my_name)
    groups: frozenset[str] = field(default_factory=_my_groups)
    sys_root: Path = Path("/sys")
    dev_root: Path = Path("/dev")
    proc_root: Path = Path("/proc")
    rules: tuple[Path, ...] = tuple(Path(root, "udev/rules.d") for root in ("/etc", "/run", "/lib", "/usr/lib"))
    cache: Path = field(default_factory=cache_dir)
    reports: Path = field(default_factory=lambda: Path.cwd() / "reports")
    temp: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    carried_adb: Path | None = field(default_factory=_carried_adb)
    python: str = sys.executable
    python_version: tuple[int, int] = sys.version_info[:2]
    requirements: tuple[str, ...] = field(default_factory=_requirements)
    installed: Callable[[str], str | None] = installed_version
    run: Callable[[Sequence[str], float], Ran] = run_program
    may_use: Callable[[Path], bool] = may_use
    free: Callable[[Path], int | None] = free_bytes
