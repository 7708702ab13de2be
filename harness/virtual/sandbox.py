"""The sandbox around one phone: bubblewrap where it works, else namespaces of our own making with the same view."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from harness.core.errors import HostError
from harness.virtual.namespaces import PROC_COVERED

SHELL_UID = 2000
"""Android's user ``shell``."""
SWITCH = "MNN_FARM_SANDBOX"
_PROBE_SECONDS = 10


class Kind(str, Enum):
    """Which sandbox."""

    BUBBLEWRAP = "bubblewrap"
    UNSHARE = "unshare"


@dataclass(frozen=True)
class Mount:
    """One thing the phone sees: ``what`` is ``bind``, ``ro-bind``, ``symlink``, ``dir``, ``proc`` or ``dev``."""

    what: str
    source: str
    place: str


def bind(source: Path | str, place: str, *, writable: bool = False) -> Mount:
    """Show ``source`` of this PC at ``place`` of the phone."""
    return Mount("bind" if writable else "ro-bind", str(source), place)


@dataclass(frozen=True)
class Plan:
    """A sandbox to be: everything both kinds need to know."""

    hostname: str
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str]
    argv: tuple[str, ...]


def system_mounts() -> Iterator[Mount]:
    """Yield what any program of this PC needs to run: ``/usr`` and the library folders."""
    yield bind("/usr", "/usr")
    for name in ("lib", "lib32", "lib64", "libx32"):
        place = Path("/", name)
        if place.is_symlink():
            yield Mount("symlink", str(place.readlink()), str(place))
        elif place.is_dir():
            yield bind(place, str(place))
    yield Mount("proc", "", "/proc")
    yield Mount("dev", "", "/dev")


def bubblewrap_argv(plan: Plan) -> list[str]:
    """Return the command that runs ``plan`` in bubblewrap."""
    argv = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--uid", str(SHELL_UID), "--gid", str(SHELL_UID), "--hostname", plan.hostname]
    argv += ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv"]
    for key, value in plan.environment.items():
        argv += ["--setenv", key, value]
    for mount in plan.mounts:
        argv += [f"--{mount.what}", mount.source, mount.place] if mount.source else [f"--{mount.what}", mount.place]
        if mount.what == "proc":
            argv += [word for name in PROC_COVERED for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--", *plan.argv]


def unshare_argv(plan: Plan) -> list[str]:
    """Return the command that runs ``plan`` in namespaces of our own making."""
    script = Path(__file__).with_name("namespaces.py")
    return [sys.executable, "-I", "-S", str(script), json.dumps({**asdict(plan), "uid": SHELL_UID})]


def sandbox_argv(kind: Kind, plan: Plan) -> list[str]:
    """Return the command that runs ``plan``. It ends when its parent does, and takes everything inside with it."""
    return bubblewrap_argv(plan) if kind is Kind.BUBBLEWRAP else unshare_argv(plan)


def find_sandbox(environment: Mapping[str, str] = os.environ) -> Kind:
    """Return the kind that works here, tried by running a program in it.

    Raises:
        HostError: none works; the message says what to install or allow.
    """
    forced = environment.get(SWITCH)
    names = [kind.value for kind in Kind]
    if forced is not None and forced not in names:
        raise HostError(f"{SWITCH} is {forced!r}", remedy=f"set it to {' or '.join(names)}, or not at all")
    said = []
    for kind in [Kind(forced)] if forced else list(Kind):
        problem = _problem_with(kind)
        if problem is None:
            return kind
        said.append(f"{kind.value}: {problem}")
    raise HostError(
        f"virtual phones need a sandbox, and none works here ({'; '.join(said)})",
        remedy="install bubblewrap and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0)",
    )


def _problem_with(kind: Kind) -> str | None:
    if kind is Kind.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bwrap is not installed"
    plan = Plan("probe", tuple(system_mounts()), {"PATH": "/usr/bin"}, ("/usr/bin/true",))
    try:
        result = subprocess.run(
            sandbox_argv(kind, plan), capture_output=True, timeout=_PROBE_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"did not end after {_PROBE_SECONDS} s"
    except OSError as error:
        return str(error.strerror)
    if result.returncode == 0:
        return None
    return _last_line(result.stderr.splitlines()) or f"ended with {result.returncode}"


def _last_line(lines: Sequence[bytes]) -> str:
    return lines[-1].decode("utf-8", "replace")[:200] if lines else ""


def all_mounts(*groups: Iterable[Mount]) -> tuple[Mount, ...]:
    """Join groups of mounts in the order in which they are made."""
    return tuple(mount for group in groups for mount in group)
