"""Phones without adb: their services with tables in a folder, and their processes in a sandbox in miniature."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.virtual import vitals
from harness.virtual.droid.store import Store
from harness.virtual.mailbox import NOW, SPEC, asked_folder, now_folder
from harness.virtual.proctree import ProcessTree
from harness.virtual.profile import Profile, load_profile
from harness.virtual.spec import encode_spec


class DroidPhone:
    """Makes stores of one phone; what one asks for, the next one sees."""

    def __init__(self, folder: Path, profile: Profile | str, **changes: Any) -> None:
        self.profile = load_profile(profile) if isinstance(profile, str) else profile
        self.folder = folder
        now_folder(folder).mkdir()
        asked_folder(folder).mkdir()
        (now_folder(folder) / SPEC).write_bytes(encode_spec(self.profile))
        state = dataclasses.replace(vitals.idle(self.profile), **changes)
        self.publish(vitals.service_state(self.profile, state, 0))

    def publish(self, state: dict[str, Any]) -> None:
        (now_folder(self.folder) / NOW).write_text(json.dumps(state))

    def store(self) -> Store:
        return Store(str(now_folder(self.folder)), str(asked_folder(self.folder)), str(self.folder / "settings.json"))


@pytest.fixture
def droid(tmp_path: Path) -> Callable[..., DroidPhone]:
    """Makes phones: ``droid("high", chip_rise_c=20.0)``."""
    count = itertools.count()

    def make(profile: Profile | str, **changes: Any) -> DroidPhone:
        folder = tmp_path / f"phone{next(count)}"
        folder.mkdir()
        return DroidPhone(folder, profile, **changes)

    return make


_ADBD = """
import subprocess, sys
open("/proc/self/comm", "w").write("adbd")
print("up", flush=True)
running = []
for line in sys.stdin:
    if line.strip() == "end":
        running[0].kill()
        running.pop(0).wait()
    else:
        running.append(subprocess.Popen([sys.executable, "-c", line]))
    print("done", flush=True)
"""
# A sandbox in miniature: process 1, below it a daemon called adbd, below that what it is told.
_INIT = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {_ADBD!r}])"
_SANDBOX = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {_INIT!r}])"


class Sandbox:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SANDBOX], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.tree = ProcessTree(self.process.pid)
        self.hear()

    def hear(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.hear()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    for process in reversed(sandbox.tree.snapshot().processes):
        with contextlib.suppress(ProcessLookupError):  # it ended with its child
            os.kill(process.pid, 9)
    sandbox.tree.close()
    with sandbox.process:
        sandbox.process.kill()
