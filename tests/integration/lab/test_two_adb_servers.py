"""Phones behind two adb servers, as on two lab hosts: one dies, twice; its phones come back, the others go on."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.adb.server import AdbServer, ensure_server
from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import HostError, PhoneError
from harness.core.provider import Endpoint, load_provider

EACH = 4
CELLS = 3
# Six seconds a cell: a server that is killed is gone in the middle of its phones' cells.
ORDERS = ("load_ms=200", "prefill_ms=50", "first_token_ms=1", "token_ms=300")
# Long enough for a server that somebody starts again at once, on a busy computer.
WAIT_S = 10.0
BLIND = ("ADB_USB", "ADB_MDNS", "ADB_MDNS_OPENSCREEN", "ADB_EMU", "ADB_LOCAL_TRANSPORT_MAX_PORT")


class Host:
    """A lab host: an adb server of its own, and the phones behind it."""

    def __init__(self, phones: list[Endpoint], home: Path) -> None:
        self.phones = phones
        self.names = {phone.transport_serial for phone in phones}
        self.server = AdbServer(phones[0].adb_host, phones[0].adb_port)
        self._env = {**dict.fromkeys(BLIND, "0"), "HOME": str(home), "TMPDIR": str(home)}

    def kill_server(self) -> None:
        """As the computer's memory killer does; nobody starts it again by itself."""
        pids = {
            one.pid
            for one in psutil.net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr.port == self.server.port
        }
        process = psutil.Process(pids.pop())
        assert process.name() == "adb"
        process.kill()

    def start_server(self) -> None:
        """Start it again; over a network adb finds no phone by itself, so plug them in."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._env.items():
                patch.setenv(name, value)
            ensure_server(self.server)
        for phone in self.phones:
            AdbTransport(phone).reconnect(deadline=Deadline(30, "plugging in", phone.name))


@pytest.fixture(scope="module")
def hosts(farm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    """Two hosts that know nothing of each other: the same phones by name, and so by their own serial numbers."""
    providers, found = [], []
    try:
        for number in range(2):
            cache = tmp_path_factory.mktemp("host")
            for shared in ("probe", "synthetic"):
                (cache / shared).symlink_to(os.path.realpath(farm_cache / shared))
            providers.append(load_provider("virtual"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MNN_FARM_CACHE", str(cache))
                try:
                    phones = providers[number].start([f"low*{EACH}"])
                except HostError as error:
                    pytest.skip(f"no virtual phone on this computer: {error}")
            found.append(Host(phones, cache))
        yield found
    finally:
        for host in found:
            if host.server.listens():
                host.kill_server()  # the one that a test has started belongs to no provider
        for provider in providers:
            provider.stop()


@pytest.fixture(scope="module")
def bench(bench_module: Any, hosts: list[Host], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A bench with the phones of both hosts."""
    return bench_module.Bench([*hosts[0].phones, *hosts[1].phones], farm_cache, tmp_path_factory.mktemp("bench"))


def finished_on(running: Any, host: Host) -> Counter[str]:
    """How many records each phone of a host has."""
    return Counter(record.phone.name for record in running.folder.records() if record.phone.name in host.names)


def measured_on(running: Any, bench: Any, host: Host) -> int:
    """How many phones of a host have a runner now."""
    found = 0
    for phone in host.phones:
        try:
            found += bool(bench.runners_on(phone))
        except PhoneError:
            continue
    return found


def test_a_server_that_dies_costs_its_phones_a_wait_and_the_other_servers_phones_nothing(
    bench: Any, hosts: list[Host], tmp_path: Path
) -> None:
    dying, other = hosts
    adb = ("--adb", f"{dying.server.address},{other.server.address}")
    running = bench.start(tmp_path / "run", *adb, "--threads", "1,2,3", orders=ORDERS, wait_s=WAIT_S)

    # Back in time: the cells go on, and end well.
    running.wait_for("cells on the host", lambda: measured_on(running, bench, dying) == EACH)
    dying.kill_server()
    log = tmp_path / "run" / "log.txt"
    waiting = f"the adb server at {dying.server.address} does not answer"
    running.wait_for("phones that are waited for", lambda: waiting in log.read_text(errors="replace"))
    time.sleep(0.5)
    assert not dying.server.listens(), "a server that the user named was started by the run"
    dying.start_server()
    running.wait_for("cells that ended well", lambda: len(finished_on(running, dying)) == EACH)

    # Not back in time: its phones are given up, for a reason that names it.
    running.wait_for("further cells on the host", lambda: measured_on(running, bench, dying) > 1)
    dying.kill_server()
    done = running.ended()
    assert done.status == 10, done.text
    for phone in dying.phones:
        well = done.verdicts(phone).count("ok")
        assert done.verdicts(phone) == ["ok"] * well + ["adb_error"] + ["phone_gone"] * (CELLS - well - 1)
        lost = done.of(phone)[well]
        assert f"the adb server at {dying.server.address} does not answer" in lost.detail
        assert "recovered" in {finding.code for record in done.of(phone)[:well] for finding in record.findings}
    assert [done.verdicts(phone) for phone in other.phones] == [["ok"] * CELLS] * EACH

    # Back later: they are in no quarantine, and --resume does what is left.
    dying.start_server()
    resumed = bench.run(tmp_path / "run", *adb, "--resume")
    assert resumed.status == 0, resumed.text
    records = list(resumed.folder.records())
    assert Counter(record.cell_id for record in records if record.final).most_common(1)[0][1] == 1
    assert [resumed.verdicts(phone) for phone in bench.phones] == [["ok"] * CELLS] * len(bench.phones)
    untouched = [record for record in records if record.phone.name in other.names]
    assert len(untouched) == EACH * CELLS
    assert all(record.attempt == 1 for record in untouched)
    assert "recovered" not in {finding.code for record in untouched for finding in record.findings}

    # The same serial number on both hosts is two phones.
    serials = {
        host.server.address: {record.phone.serial for record in records if record.phone.name in host.names}
        for host in hosts
    }
    assert len(serials[dying.server.address]) == EACH
    assert serials[dying.server.address] == serials[other.server.address]
    assert len({record.phone.id for record in records}) == 2 * EACH
    bench.assert_as_found()
