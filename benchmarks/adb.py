"""Our adb client beside adb itself, on one virtual phone, interleaved in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.adb.transport import AdbTransport
from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint, load_provider
from harness.core.transport import PushItem

ROUNDS = 30
PUSH_BYTES = 256 * 1024 * 1024
PUSH_ROUNDS = 3


@contextmanager
def provided(profile: str) -> Iterator[Endpoint]:
    """Provide one virtual phone of this profile."""
    provider = load_provider("virtual")
    try:
        yield provider.start([profile])[0]
    finally:
        provider.stop()


def timed_ms(action: Callable[[], object]) -> float:
    """Return how long ``action`` took, in ms."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def shell_round_trip() -> dict[str, Any]:
    """Compare ``true`` on the phone through our client and through an adb process."""
    with provided("high") as endpoint:
        transport = AdbTransport(endpoint)
        adb = [str(find_adb(carried_first=True)), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial]
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(timed_ms(lambda: transport.shell(["true"], deadline=Deadline(10, "true", "phone"))))
            theirs.append(timed_ms(lambda: subprocess.run([*adb, "shell", "true"], check=True)))
    mine, others = statistics.median(ours), statistics.median(theirs)
    return {"ours_ms": mine, "adb_process_ms": others, "ratio": mine / others, "rounds": ROUNDS}


def push() -> dict[str, Any]:
    """Compare pushing one large file through our client and through ``adb push``."""
    with provided("high") as endpoint, tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "weights"
        local.write_bytes(os.urandom(1024 * 1024) * (PUSH_BYTES // (1024 * 1024)))
        remote = "/data/local/tmp/bench-push"
        transport = AdbTransport(endpoint)
        adb = [str(find_adb(carried_first=True)), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial]
        items = [PushItem(local, remote)]
        ours, theirs = [], []
        for _ in range(PUSH_ROUNDS):
            ours.append(timed_ms(lambda: transport.push(items, deadline=Deadline(120, "a push", "phone"))))
            command = [*adb, "push", str(local), remote]
            theirs.append(timed_ms(lambda: subprocess.run(command, check=True, capture_output=True)))  # noqa: B023
        transport.shell(["rm", "-f", remote], deadline=Deadline(30, "removing", "phone"))
    mine, others = PUSH_BYTES / min(ours) / 1000, PUSH_BYTES / min(theirs) / 1000
    return {"ours_mb_per_s": mine, "adb_push_mb_per_s": others, "ratio": mine / others, "bytes": PUSH_BYTES}
