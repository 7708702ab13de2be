"""Python, its packages, the MNN engine and the compiler: each tried in a process of its own, nothing compiled."""

from __future__ import annotations

import re

from harness.core.hostcheck import HostFinding
from harness.doctor.host import Host

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = (3, 13)
IMPORT_S = 120.0
# `MNN.tools` must never be imported: it installs packages.
_IMPORT_MNN = "import MNN.llm, importlib.metadata; print(importlib.metadata.version('MNN'))"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:.*?>=\s*([0-9.]+))?")


def check_python(host: Host) -> list[HostFinding]:
    """Python is one that we are tested with."""
    if OLDEST_PYTHON <= host.python_version <= NEWEST_PYTHON:
        return []
    have = ".".join(map(str, host.python_version))
    old = host.python_version < OLDEST_PYTHON
    return [
        HostFinding(
            "python_old" if old else "python_new",
            "error" if old else "warning",
            f"Python {have} is {'too old' if old else 'newer than what mnn-farm is tested with'}",
            f"{host.python} is {have}; tested are 3.10 to {'.'.join(map(str, NEWEST_PYTHON))}",
            "make a new environment with one of those: make PYTHON=python3.12",
        )
    ]


def check_packages(host: Host) -> list[HostFinding]:
    """Every package that we require is there, and new enough."""
    wrong = []
    for line in host.requirements:
        match = _REQUIREMENT.match(line)
        if match is None:
            continue
        have, least = host.installed(match[1]), match[2]
        if have is None:
            wrong.append(f"{match[1]} is missing")
        elif least is not None and _numbers(have) < _numbers(least):
            wrong.append(f"{match[1]} is {have}, needed is {least}")
    if not wrong:
        return []
    return [
        HostFinding(
            "packages_wrong",
            "error",
            "packages are missing or too old",
            "; ".join(wrong),
            f"{host.python} -m pip install --upgrade mnn-farm (in a checkout: make test)",
        )
    ]


def _numbers(version: str) -> tuple[int, ...]:
    numbers = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def check_mnn(host: Host) -> list[HostFinding]:
    """The engine of this PC can be loaded: ``--devices host`` and virtual phones run on it."""
    ran = host.run([host.python, "-c", _IMPORT_MNN], IMPORT_S)
    if ran.exit_code == 0:
        return []
    return [
        HostFinding(
            "mnn_broken",
            "error",
            "the MNN package does not load, so neither host nor virtual phones can run a model",
            ran.says,
            f"{host.python} -m pip install --force-reinstall MNN"
            if ran.exit_code is None or ran.exit_code > 0
            else "it was built for another CPU: use another computer, or build MNN's Python package from source",
        )
    ]


def check_zig(host: Host) -> list[HostFinding]:
    """The compiler that builds the probe is there."""
    ran = host.run([host.python, "-m", "ziglang", "version"], IMPORT_S)
    if ran.exit_code == 0 and re.match(r"[0-9]+\.", ran.stdout):
        return []
    return [
        HostFinding(
            "zig_broken",
            "error",
            "the compiler for the probe does not run",
            ran.says,
            f"{host.python} -m pip install --force-reinstall ziglang",
        )
    ]
