"""What people would use instead: adb's own program, adbutils, and mobly (which runs adb's program for each command).

They all reach the phone through the adb server that ours goes through.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import adbutils

from harness.core.adbprogram import find_adb
from harness.core.provider import Endpoint

ADB, ADBUTILS, MOBLY = "adb", "adbutils", "mobly"
NO_MOBLY = "mobly is not installed: pip install 'mnn-farm[bench]'"

try:
    from mobly.controllers import android_device
    from mobly.controllers.android_device_lib import adb as mobly_adb
except ModuleNotFoundError:
    android_device = mobly_adb = None

# Runs a command on the phone and returns what it printed.
Shell = Callable[[Sequence[str]], bytes]


class Peers:
    """The ways of others to one phone. One of these per process: mobly takes adb's place and server for all of it."""

    def __init__(self, endpoint: Endpoint) -> None:
        program = str(find_adb(carried_first=True))
        self.serial = endpoint.transport_serial
        self.adb = [program, "-P", str(endpoint.adb_port), "-s", self.serial]
        self.device = adbutils.AdbClient(port=endpoint.adb_port).device(self.serial)
        if mobly_adb is not None:
            mobly_adb.ADB = program
            os.environ["ANDROID_ADB_SERVER_PORT"] = str(endpoint.adb_port)

    @property
    def cannot(self) -> dict[str, str]:
        """Who is not here, and why."""
        return {} if mobly_adb is not None else {MOBLY: NO_MOBLY}

    @property
    def shells(self) -> dict[str, Shell]:
        """How each runs a command."""
        shells: dict[str, Shell] = {ADB: self._adb_shell, ADBUTILS: self._adbutils_shell}
        if mobly_adb is not None:
            proxy = mobly_adb.AdbProxy(self.serial)
            shells[MOBLY] = lambda argv: bytes(proxy.shell(shlex.join(argv)))
        return shells

    @property
    def pushes(self) -> Mapping[str, Callable[[Path, str], object]]:
        """How each pushes a file."""
        pushes: dict[str, Callable[[Path, str], object]] = {
            ADB: lambda local, remote: self._run("push", str(local), remote),
            ADBUTILS: lambda local, remote: self.device.sync.push(local, remote),
        }
        if mobly_adb is not None:
            proxy = mobly_adb.AdbProxy(self.serial)
            pushes[MOBLY] = lambda local, remote: proxy.push([str(local), remote])
        return pushes

    def push_again(self, local: Path, remote: str) -> None:
        """Push a file that may be there: adb compares time and size and believes them."""
        self._run("push", "--sync", str(local), remote)

    def mobly_device(self) -> Any:
        """Make mobly's object of the phone and have it read what it reads of one."""
        device = android_device.AndroidDevice(self.serial)
        return device.device_info

    def _run(self, *words: str) -> bytes:
        return subprocess.run([*self.adb, *words], check=True, capture_output=True).stdout

    def _adb_shell(self, argv: Sequence[str]) -> bytes:
        return self._run("shell", shlex.join(argv))

    def _adbutils_shell(self, argv: Sequence[str]) -> bytes:
        return bytes(self.device.shell(shlex.join(argv), encoding=None))
