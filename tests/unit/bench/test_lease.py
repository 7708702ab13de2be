"""Taking a phone, waiting for it, keeping it, losing it: against a phone that says what the probe would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any, cast

import psutil
import pytest

from harness.bench.lease import (
    Keeper,
    PhoneLease,
    describe,
    is_ours,
    lease_file,
    owner_is_dead,
    take,
    this_host,
    this_owner,
)
from harness.core.errors import FarmError, PhoneLostError
from harness.core.reasons import Reason
from harness.payload.probe_lease import Lease, LeaseAnswer

ANN = Lease("a" * 16, "ann pid 77 since 1700000000", "lab-1 (0abc/4)", "nightly", "boot-1", 9, 180_000, 65_400)
OURS = replace(ANN, id="b" * 16, owner=this_owner(), host=this_host())
TAKEN = LeaseAnswer("taken", replace(ANN, id="c" * 16))
FREE = LeaseAnswer("free", None)


class FakeProbe:
    """Gives the answers in turn, the last one for ever."""

    def __init__(self, *answers: LeaseAnswer, extends: LeaseAnswer = FREE) -> None:
        self.answers = list(answers)
        self.extends: Any = extends
        self.asked: list[tuple[Any, ...]] = []
        self.extended = threading.Event()

    def take_lease(self, file: str, **who: Any) -> LeaseAnswer:
        self.asked.append(("take", file, who["purpose"], who["ttl_s"]))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def end_lease(self, file: str, lease_id: str) -> LeaseAnswer:
        self.asked.append(("end", file, lease_id))
        return FREE

    def extend_lease(self, file: str, lease_id: str) -> LeaseAnswer:
        self.asked.append(("extend", file, lease_id))
        self.extended.set()
        if isinstance(self.extends, Exception):
            raise self.extends
        return cast("LeaseAnswer", self.extends)


def taken_from(probe: FakeProbe, wait_s: float = 0.0) -> tuple[PhoneLease, float]:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    lease = take(cast("Any", probe), "toy-1", "/base", "a benchmark", wait_s=wait_s, clock=lambda: now[0], sleep=sleep)
    return lease, now[0]


def lease_of(probe: FakeProbe) -> PhoneLease:
    return PhoneLease(cast("Any", probe), "toy-1", "/base/lease", "a benchmark", OURS.id)


def test_a_free_phone_is_taken() -> None:
    probe = FakeProbe(TAKEN)
    lease, waited = taken_from(probe)
    assert (lease.id, lease.file, lease.notes, waited) == ("c" * 16, lease_file("/base"), [], 0.0)
    assert probe.asked == [("take", "/base/lease", "a benchmark", 180)]


def test_a_phone_in_use_is_refused_with_who_has_it_and_for_how_long() -> None:
    with pytest.raises(FarmError) as raised:
        taken_from(FakeProbe(LeaseAnswer("held", ANN)))
    assert raised.value.reason is Reason.BUSY
    assert raised.value.message == "toy-1: in use by ann on lab-1 for nightly, at least 65 s more"
    assert "--wait-lease" in raised.value.remedy


def test_whoever_waits_gets_it_when_it_is_free_and_not_later_than_asked() -> None:
    held = LeaseAnswer("held", ANN)
    lease, waited = taken_from(FakeProbe(held, held, held, TAKEN), wait_s=30)
    assert (lease.id, waited) == ("c" * 16, 3.0)
    with pytest.raises(FarmError):
        taken_from(FakeProbe(held), wait_s=2.5)


def test_taking_over_a_lost_lease_is_noted_with_how_it_was_lost() -> None:
    assert TAKEN.holder is not None
    lapsed = taken_from(FakeProbe(replace(TAKEN, previous=ANN)))[0].notes
    rebooted = taken_from(FakeProbe(replace(TAKEN, previous=replace(ANN, boot_id="boot-0"))))[0].notes
    assert lapsed == ["taken over from ann, whose lease lapsed"]
    assert rebooted == ["taken over from ann, whose lease rebooted"]


def test_a_lease_of_this_very_process_is_gone_on_with() -> None:
    lease, _ = taken_from(FakeProbe(LeaseAnswer("held", OURS)))
    assert lease.id == OURS.id


def test_a_lease_of_a_dead_process_of_this_computer_is_taken_over_at_once() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    dead = replace(ANN, owner=f"bob pid {done.pid} since 1700000000", host=this_host())
    probe = FakeProbe(LeaseAnswer("held", dead), TAKEN)
    lease, waited = taken_from(probe)
    assert (waited, probe.asked[1]) == (0.0, ("end", "/base/lease", dead.id))
    assert lease.notes == [f"taken over from {dead.owner}, a process of this computer that is dead"]


def test_only_a_process_of_this_very_computer_is_known_to_be_dead() -> None:
    begun = int(psutil.Process().create_time())
    gone = replace(ANN, owner=f"ann pid {2**22 - 3} since {begun}", host=this_host())
    assert owner_is_dead(gone)
    assert not owner_is_dead(replace(gone, host="elsewhere (0abc/4)"))
    assert not owner_is_dead(replace(gone, owner=f"ann pid {os.getpid()} since {begun}"))
    assert owner_is_dead(replace(gone, owner=f"ann pid {os.getpid()} since {begun - 60}"))
    assert not owner_is_dead(replace(gone, owner="somebody else's tool"))


def test_we_know_ourselves_and_nobody_else() -> None:
    assert is_ours(OURS)
    assert not is_ours(replace(OURS, host="lab-1"))
    assert not is_ours(ANN)
    assert describe(replace(ANN, owner="x", purpose="")) == "x on lab-1 for something, at least 65 s more"


def test_a_lease_is_renewed_by_extending_it() -> None:
    probe = FakeProbe(FREE, extends=LeaseAnswer("taken", OURS))
    lease_of(probe).renew()
    assert probe.asked == [("extend", "/base/lease", OURS.id)]


def test_a_phone_that_a_reboot_freed_is_taken_again_and_that_is_noted() -> None:
    lease = lease_of(FakeProbe(TAKEN, extends=FREE))
    lease.renew()
    assert (lease.id, lease.notes) == ("c" * 16, ["the lease had lapsed and was taken again"])


def test_a_lease_that_was_taken_again_though_its_answer_was_lost_is_found() -> None:
    lease = lease_of(FakeProbe(FREE, extends=LeaseAnswer("held", replace(OURS, id="d" * 16))))
    lease.renew()
    assert lease.id == "d" * 16


def test_a_lease_that_a_worker_took_again_before_it_died_is_taken_from_it() -> None:
    dead = replace(ANN, owner=f"ann pid {2**22 - 3} since 1700000000", host=this_host())
    probe = FakeProbe(TAKEN, extends=LeaseAnswer("held", dead))
    lease = lease_of(probe)
    lease.renew()
    assert (lease.id, probe.asked[1]) == ("c" * 16, ("end", "/base/lease", dead.id))


@pytest.mark.parametrize(
    "probe",
    [FakeProbe(FREE, extends=LeaseAnswer("held", ANN)), FakeProbe(LeaseAnswer("held", ANN), extends=FREE)],
)
def test_a_phone_that_somebody_else_has_by_now_is_lost(probe: FakeProbe) -> None:
    with pytest.raises(FarmError, match="the lease is lost; ann on lab-1") as raised:
        lease_of(probe).renew()
    assert raised.value.reason is Reason.LEASE_LOST


def test_between_runs_a_keeper_extends_it_until_it_is_told_to_end() -> None:
    probe = FakeProbe(FREE, extends=LeaseAnswer("taken", OURS))
    with Keeper(lease_of(probe), every_s=0.01) as keeper:
        assert probe.extended.wait(10)
    keeper._thread.join(10)
    assert not keeper._thread.is_alive()
    assert probe.asked[0] == ("extend", "/base/lease", OURS.id)


def test_a_keeper_that_cannot_reach_the_phone_goes_on_trying() -> None:
    probe = FakeProbe(FREE)
    probe.extends = PhoneLostError("toy-1", "gone")
    with Keeper(lease_of(probe), every_s=0.01):
        for _ in range(2):
            assert probe.extended.wait(10)
            probe.extended.clear()
