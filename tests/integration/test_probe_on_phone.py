"""The probe on a phone behind the real adb server: runs that go on without adb, and who has the phone."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pytest

from harness.adb.connection import HostConnection
from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneLostError, PhoneOfflineError, ProbeError
from harness.core.provider import Endpoint
from harness.payload.probe import Probe, RunSpec
from harness.payload.probe_events import Event, Output, RunLog, Start
from harness.payload.probe_files import Residency

FOLDER = "/data/local/tmp/mnn-farm/work/probe-test"


class CutError(Exception):
    """The reader goes away."""


@pytest.fixture
def phone(virtual_phone: Endpoint) -> AdbTransport:
    return AdbTransport(virtual_phone)


@pytest.fixture
def probe(phone: AdbTransport) -> Iterator[Probe]:
    made = Probe.install(phone)
    deadline = Deadline(30, "a test", phone.name)
    phone.shell(["sh", "-c", 'rm -rf "$0" && mkdir -p "$0"', FOLDER], deadline=deadline)
    yield made
    # what a failed test left running
    phone.shell([made.path, "stop", f"{FOLDER}/probe"], deadline=Deadline(30, "the end of a test", phone.name))


def spec(*argv: str, **more: object) -> RunSpec:
    return RunSpec(argv=argv, work_dir=FOLDER, deadline_s=20, interval_ms=1000, **more)  # type: ignore[arg-type]


def test_a_run_goes_on_while_nobody_looks_and_is_read_afterwards(probe: Probe) -> None:
    wanted = spec("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.05; done; exit 6")
    start = probe.start(wanted)
    assert start.argv == wanted.argv
    log = probe.attach(wanted.events_dir, 20)
    assert log.start == start
    assert log.stdout == b"1\n2\n3\n"
    assert log.end is not None
    assert (log.end.why, log.end.exit_code) == ("exit", 6)


def test_after_a_lost_connection_the_rest_comes_from_where_it_broke(phone: AdbTransport, probe: Probe) -> None:
    wanted = spec("sh", "-c", "i=0; while [ $i -lt 30 ]; do echo $i; i=$((i+1)); sleep 0.02; done")
    probe.start(wanted)
    raw = io.BytesIO()
    log = RunLog()

    def until_five(event: Event) -> None:
        if isinstance(event, Output) and b"5" in event.data:
            raise CutError

    with pytest.raises(CutError):
        probe.attach(wanted.events_dir, 20, into=log, on_event=until_five, keep_raw=raw)
    assert log.end is None
    probe.attach(wanted.events_dir, 20, into=log, keep_raw=raw)
    assert RunLog.read(raw.getvalue()).size == log.size
    assert log.stdout.split() == [str(number).encode() for number in range(30)]


def test_a_run_survives_that_adb_drops_the_phone(phone: AdbTransport, probe: Probe, virtual_phone: Endpoint) -> None:
    wanted = spec("sleep", "60")
    before = probe.start(wanted)

    def ask_server(verb: str) -> None:
        deadline = Deadline(20, verb, phone.name)
        with HostConnection(virtual_phone.adb_host, virtual_phone.adb_port, phone.name, deadline) as connection:
            connection.request(f"host:{verb}:{phone.serial}")

    def drop(event: Event) -> None:
        if isinstance(event, Start):
            ask_server("disconnect")

    try:
        with pytest.raises((PhoneLostError, ProbeError)):
            probe.attach(wanted.events_dir, 20, on_event=drop)
    finally:
        ask_server("connect")
        _wait_until_it_answers(phone)
    assert probe.stop(wanted.events_dir).why == "stopped"
    log = probe.attach(wanted.events_dir, 20)
    assert log.start == before


def _wait_until_it_answers(phone: AdbTransport) -> None:
    deadline = Deadline(20, "the return of the phone", phone.name)
    while True:
        try:
            phone.shell(["true"], deadline=deadline)
        except (PhoneLostError, PhoneOfflineError):
            deadline.remaining_s()  # raises when it is over
            time.sleep(0.02)
        else:
            return


def test_stopping_what_is_not_there_is_said(probe: Probe) -> None:
    with pytest.raises(ProbeError, match=r"there is no run in /nowhere \(ENOENT\)"):
        probe.stop("/nowhere")
    with pytest.raises(ProbeError, match="there is no run in /nowhere"):
        probe.attach("/nowhere", 10)


def test_silence_and_heat_end_a_run(probe: Probe) -> None:
    quiet = probe.run(spec("sleep", "60", silence_s=0.2))
    assert quiet.end is not None
    assert quiet.end.why == "silence"


def test_a_zone_of_the_phone_trips_a_run(probe: Probe) -> None:
    hot = probe.run(spec("sleep", "60", trips={"cpu.*|skin.*|.*-skin|quiet.*": 1}))
    assert hot.end is not None
    assert hot.end.why == "trip"
    assert hot.end.trip is not None
    assert hot.end.trip.milli_c >= 1


def test_the_phone_is_taken_shown_and_given_back(probe: Probe) -> None:
    file = f"{FOLDER}/lease"
    taken = probe.take_lease(file, owner="ann", host="lab-1", purpose="it's a test", ttl_s=60)
    assert taken.state == "taken"
    assert taken.holder is not None
    refused = probe.take_lease(file, owner="bob", host="lab-2", purpose="play", ttl_s=60)
    assert refused.state == "held"
    assert refused.holder is not None
    assert (refused.holder.owner, refused.holder.purpose) == ("ann", "it's a test")
    log = probe.run(spec("true", lease=(file, taken.holder.id)))
    assert log.end is not None
    assert log.end.why == "exit"
    assert probe.end_lease(file, "0" * 16).state == "held"
    assert probe.show_lease(file).state == "held"
    assert probe.end_lease(file, taken.holder.id).state == "free"
    assert probe.show_lease(file).state == "free"


def test_a_cold_load_is_proven(phone: AdbTransport, probe: Probe) -> None:
    deadline = Deadline(30, "a test", phone.name)
    phone.shell(["sh", "-c", 'head -c 300000 /dev/zero > "$0/weights"', FOLDER], deadline=deadline)
    assert probe.residency(FOLDER, 30) == Residency(300_000, 300_000)
    assert probe.evict(FOLDER, 30).is_cold
    with pytest.raises(ProbeError, match=r"looking for /nowhere in the phone's memory failed \(ENOENT\)"):
        probe.evict("/nowhere", 30)


def test_bandwidth_of_a_phone_is_told_by_threads(probe: Probe) -> None:
    speeds = probe.bandwidth([1, 2], seconds=0.05, megabytes=16)
    assert list(speeds) == [1, 2]
    with pytest.raises(ProbeError, match="too few for 2 threads"):
        probe.bandwidth([1, 2], seconds=0.05, megabytes=16, cpus="0")
    assert all(0.01 < speed < 10_000 for speed in speeds.values())
