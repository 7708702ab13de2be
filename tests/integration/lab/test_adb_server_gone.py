"""The adb server is killed in the middle: it is started again and the phones go on; where it cannot be, all say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.virtual.control import PhoneControl

PHONES = ("high", "mid")
# A server started by a run sees nothing that is plugged into this computer, as the bench's own does.
BLIND = ("ADB_USB", "ADB_MDNS", "ADB_MDNS_OPENSCREEN", "ADB_EMU", "ADB_LOCAL_TRANSPORT_MAX_PORT")
PUSHED_BYTES = 2_000_000


def server_of(phone: Endpoint) -> psutil.Process | None:
    """The adb server that has a phone."""
    listening = psutil.net_connections("tcp")
    pids = {one.pid for one in listening if one.status == psutil.CONN_LISTEN and one.laddr.port == phone.adb_port}
    return psutil.Process(pids.pop()) if pids else None


def kill_server(phone: Endpoint) -> None:
    """As the computer's memory killer does."""
    server = server_of(phone)
    assert server is not None
    assert server.name() == "adb"
    server.kill()


@pytest.fixture(scope="module")
def env(virtual_phones: list[Endpoint], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """For programs that may start the server. One that a run has started outlives it, and ends with these tests."""
    home = str(tmp_path_factory.mktemp("home"))
    yield {**dict.fromkeys(BLIND, "0"), "HOME": home, "TMPDIR": home}
    server = server_of(virtual_phones[0])
    if server is not None:
        server.kill()


@pytest.fixture
def no_adb(tmp_path: Path) -> str:
    """A PATH with an adb that runs and cannot start a server."""
    program = tmp_path / "adb"
    program.write_text('#!/bin/sh\n[ "$1" = version ] || { echo "no server for you" >&2; exit 1; }\n')
    program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


def test_a_server_killed_in_the_middle_of_runs_costs_no_cell(
    bench: Any, bench_module: Any, env: dict[str, str], tmp_path: Path
) -> None:
    running = bench.start(tmp_path / "run", orders=bench_module.SLOW, env=env)
    running.wait_until_measuring(2)
    kill_server(bench.phones[0])
    done = running.ended()
    assert done.status == 0, done.text
    for phone in bench.phones:
        assert done.verdicts(phone) == ["ok"] * bench_module.CELLS
        assert "recovered" in {finding.code for record in done.of(phone) for finding in record.findings}
    bench.assert_as_found()


def test_a_server_killed_in_the_middle_of_a_push_costs_no_cell(
    bench: Any, bench_module: Any, env: dict[str, str], tmp_path: Path
) -> None:
    pushed_to = bench.phones[0]
    control = PhoneControl(pushed_to.name)
    control.inject(f"slow={PUSHED_BYTES // 2}")
    model = bench.unseen_model("pushed", PUSHED_BYTES)
    running = bench.start(tmp_path / "run", "--model", str(model), env=env)
    log = tmp_path / "run" / "log.txt"
    pushing = f"[{pushed_to.transport_serial}] pushing model"
    running.wait_for("the push", lambda: log.exists() and pushing in log.read_text())
    kill_server(pushed_to)
    done = running.ended()
    control.heal()
    assert done.status == 0, done.text
    assert [done.verdicts(phone) for phone in bench.phones] == [["ok"] * bench_module.CELLS] * 2
    assert "recovered" in {finding.code for finding in done.of(pushed_to)[0].findings}
    bench.assert_as_found()


def test_a_server_that_does_not_come_back_is_the_computers_fault_and_no_phones(
    bench: Any, bench_module: Any, env: dict[str, str], no_adb: str, tmp_path: Path
) -> None:
    running = bench.start(
        tmp_path / "run", orders=bench_module.LONG, wait_s=bench_module.IMPATIENCE_S, env={**env, "PATH": no_adb}
    )
    running.wait_until_measuring(2)
    kill_server(bench.phones[0])
    done = running.ended()
    assert done.status == 10, done.text
    for phone in bench.phones:
        assert done.verdicts(phone) == ["adb_error"] + ["phone_gone"] * (bench_module.CELLS - 1)
        assert "mnn-farm doctor" in done.of(phone)[0].detail

    # Somebody mends it. No phone is in quarantine for it, and what they still owe is done now.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        for phone in bench.phones:
            AdbTransport(phone).reconnect(deadline=Deadline(30, "plugging in", phone.name))
    mended = bench.run(tmp_path / "next", env=env)
    assert mended.status == 0, mended.text
    assert [mended.verdicts(phone) for phone in bench.phones] == [["ok"] * bench_module.CELLS] * 2
    bench.assert_as_found()
