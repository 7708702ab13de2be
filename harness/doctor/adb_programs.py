"""The adb programs of a host: which there are, and which would end the running server.

A client that meets a server of another protocol version kills it and starts its own, and with it every run on every
phone. That number is the third one of ``Android Debug Bridge version 1.0.41``; two releases may share it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.hostcheck import HostFinding
from harness.doctor.adb_server import server_state
from harness.doctor.host import Host

ASK_VERSION_S = 10.0
_PROTOCOL = re.compile(r"Android Debug Bridge version 1\.0\.([0-9]{1,6})")
_RELEASE = re.compile(r"^Version (\S+)", re.MULTILINE)
_PATH, _CARRIED = "PATH", "the package adbutils"


@dataclass(frozen=True)
class AdbProgram:
    """An adb program: where it was found, and its versions; ``problem`` says why they are unknown."""

    path: Path
    found_in: str
    protocol: int | None = None
    release: str | None = None
    problem: str = ""

    def __str__(self) -> str:
        release = f", release {self.release}" if self.release else ""
        return f"{self.path} (from {self.found_in}) has version {self.protocol}{release}"


def adb_programs(host: Host) -> list[AdbProgram]:
    """Return all adb programs, those of PATH first, each once; asking for the version talks to no server."""
    folders = [(Path(part), _PATH) for part in host.environ.get("PATH", "").split(os.pathsep) if part]
    for name in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        if host.environ.get(name):
            folders.append((Path(host.environ[name], "platform-tools"), name))
    candidates = [(folder / "adb", found_in) for folder, found_in in folders]
    if host.carried_adb is not None:
        candidates.append((host.carried_adb, _CARRIED))
    seen: set[Path] = set()
    programs = []
    for path, found_in in candidates:
        if path.is_file() and os.access(path, os.X_OK) and path.resolve() not in seen:
            seen.add(path.resolve())
            programs.append(_asked(host, path, found_in))
    return programs


def _asked(host: Host, path: Path, found_in: str) -> AdbProgram:
    ran = host.run([str(path), "version"], ASK_VERSION_S)
    protocol, release = _PROTOCOL.search(ran.stdout), _RELEASE.search(ran.stdout)
    if ran.exit_code != 0 or protocol is None:
        return AdbProgram(path, found_in, problem=ran.says)
    return AdbProgram(path, found_in, int(protocol[1]), release[1] if release else None)


def check_programs(host: Host) -> list[HostFinding]:
    """There is an adb that runs, and all that there are agree."""
    programs = adb_programs(host)
    working = [program for program in programs if not program.problem]
    findings = [
        HostFinding(
            "adb_broken",
            "warning" if working else "error",
            f"the adb of {program.found_in} does not run",
            f"{program.path}: {program.problem}",
            f"remove {program.path} and install one for this computer: apt-get install adb (Debian and Ubuntu)",
        )
        for program in programs
        if program.problem
    ]
    if not working:
        findings.append(
            HostFinding(
                "adb_missing",
                "error",
                "there is no adb that runs",
                "looked in PATH, ANDROID_HOME, ANDROID_SDK_ROOT and the package adbutils",
                "apt-get install adb (Debian and Ubuntu), or: python -m pip install --force-reinstall adbutils",
            )
        )
    return findings + _disagreement(working)


def _disagreement(programs: Sequence[AdbProgram]) -> list[HostFinding]:
    if len({(program.protocol, program.release) for program in programs}) < 2:
        return []
    killers = len({program.protocol for program in programs}) > 1
    return [
        HostFinding(
            "adb_versions_differ",
            "warning" if killers else "info",
            "there are adb programs of different versions"
            + (": each kills the other's server" if killers else ", which share a server all the same"),
            "; ".join(map(str, programs)),
            f"keep one: put {programs[0].path.parent} first in PATH for everybody and remove or update the others",
        )
    ]


def check_killers(host: Host) -> list[HostFinding]:
    """No adb program here would kill the server that runs now."""
    server = server_state(host)
    if server.version is None:
        return []
    findings = []
    for number, program in enumerate(adb_programs(host)):
        if program.protocol is None or program.protocol == server.version:
            continue
        typed = number == 0 and program.found_in == _PATH
        findings.append(
            HostFinding(
                "adb_kills_server",
                "error" if typed else "warning",
                f"the adb of {program.found_in} would kill the running adb server"
                + (" when anybody types adb" * typed),
                f"{program}; the server at {server.address} has version {server.version}",
                f"when no run is going on, let one adb do both: {program.path} kill-server; {program.path} start-server"
                if typed
                else f"remove {program.path}, or update it to the server's version",
            )
        )
    return findings
