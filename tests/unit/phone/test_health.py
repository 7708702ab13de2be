from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from harness.core.errors import HostError
from harness.phone.health import (
    MAX_FAILURES,
    QUARANTINE_FIRST,
    QUARANTINE_MAX,
    STREAK_MEMORY,
    Failure,
    HealthStore,
    Hold,
    quarantine_time,
)

NOW = datetime(2031, 5, 4, 3, 2, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
ONE, TWO = "11111111-aaaa", "22222222-bbbb"


@pytest.fixture
def store(tmp_path: Path) -> HealthStore:
    return HealthStore(tmp_path)


def lost(store: HealthStore, phone: str = ONE, port: str = "1-4", at: datetime = NOW) -> Hold:
    return store.quarantine(phone, "toy", port, "device_lost", "gone amid a push", at)


def test_a_phone_nobody_held_is_not_held(store: HealthStore) -> None:
    assert store.held(ONE, NOW) is None
    assert store.failures(ONE) == ()
    assert store.names() == {}


def test_a_person_holds_until_released(store: HealthStore, tmp_path: Path) -> None:
    hold = store.hold(ONE, "toy", "held", "new battery ordered", None, "person", now=NOW)
    assert HealthStore(tmp_path).held(ONE, NOW + 10_000 * HOUR) == hold
    assert hold.text == "held by a person until it is released: new battery ordered"
    assert store.release(ONE) == hold
    assert store.held(ONE, NOW) is None
    assert store.release(ONE) is None


def test_a_hold_ends_by_itself(store: HealthStore) -> None:
    hold = store.hold(ONE, "toy", "too_hot", "", NOW + HOUR, "person", now=NOW)
    assert store.held(ONE, NOW + HOUR - timedelta(seconds=1)) == hold
    assert store.held(ONE, NOW + HOUR) is None
    assert hold.text == "held by a person until 2031-05-04T04:02:01Z: too_hot"


def test_one_phones_hold_is_not_anothers(store: HealthStore) -> None:
    store.hold(ONE, "toy", "held", "", None, "person", now=NOW)
    assert store.held(TWO, NOW) is None


def test_quarantine_doubles_with_each_failure_in_a_row(store: HealthStore) -> None:
    until = [lost(store, at=NOW + n * HOUR).until for n in range(3)]
    assert until == [NOW + QUARANTINE_FIRST, NOW + HOUR + 2 * QUARANTINE_FIRST, NOW + 2 * HOUR + 4 * QUARANTINE_FIRST]


@pytest.mark.parametrize("streak", [7, 100, 10**9])
def test_quarantine_is_a_day_at_most(streak: int) -> None:
    assert quarantine_time(streak) == QUARANTINE_MAX


def test_a_failure_that_was_noted_without_a_quarantine_counts_for_the_next(store: HealthStore) -> None:
    store.note_failure(ONE, "toy", "1-4", "link_stalled", "", NOW)
    assert lost(store).until == NOW + 2 * QUARANTINE_FIRST


def test_success_a_persons_release_and_time_end_a_streak(store: HealthStore) -> None:
    lost(store)
    store.note_success(ONE)
    later = NOW + HOUR
    assert lost(store, at=later).until == later + QUARANTINE_FIRST
    store.release(ONE)
    later += HOUR
    assert lost(store, at=later).until == later + QUARANTINE_FIRST
    later += STREAK_MEMORY + HOUR
    assert lost(store, at=later).until == later + QUARANTINE_FIRST


def test_success_does_not_release(store: HealthStore) -> None:
    hold = lost(store)
    store.note_success(ONE)
    assert store.held(ONE, NOW) == hold


def test_quarantine_shortens_no_hold_of_a_person(store: HealthStore) -> None:
    hold = store.hold(ONE, "toy", "held", "mine", None, "person", now=NOW)
    assert lost(store) == hold
    assert store.held(ONE, NOW) == hold
    assert len(store.failures(ONE)) == 1


def test_failures_are_told_per_phone_and_per_port(store: HealthStore) -> None:
    store.note_failure(TWO, "doll", "1-4", "push_failed", "b", NOW + HOUR)
    store.note_failure(ONE, "toy", "1-4", "device_lost", "a", NOW)
    store.note_failure(ONE, "toy", "lab2:5037", "rebooted", "c", NOW + 2 * HOUR)
    a = Failure(phone_id=ONE, name="toy", port="1-4", code="device_lost", detail="a", at=NOW)
    b = Failure(phone_id=TWO, name="doll", port="1-4", code="push_failed", detail="b", at=NOW + HOUR)
    c = Failure(phone_id=ONE, name="toy", port="lab2:5037", code="rebooted", detail="c", at=NOW + 2 * HOUR)
    assert store.failures(ONE) == (a, c)
    assert store.failures_of_port("1-4") == (a, b)
    assert store.all_failures() == (a, b, c)
    assert store.names() == {ONE: "toy", TWO: "doll"}


def test_history_is_bounded(store: HealthStore) -> None:
    for n in range(MAX_FAILURES + 3):
        store.note_failure(ONE, "toy", "1-4", "noisy", "x" * 10_000, NOW + timedelta(seconds=n))
    kept = store.failures(ONE)
    assert len(kept) == MAX_FAILURES
    assert kept[-1].at == NOW + timedelta(seconds=MAX_FAILURES + 2)
    assert len(kept[0].detail) == 500


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b'{"schema": 2, "phone_id": "11111111-aaaa"}', b'{"phone_id": "22222222-bbbb"}', b"[]", b"\xff\xfe"],
)
def test_a_damaged_file_is_set_aside_and_told(
    store: HealthStore, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"{ONE}.json").write_bytes(damage)
    assert store.held(ONE, NOW) is None
    assert (tmp_path / f"{ONE}.damaged").read_bytes() == damage
    assert "set aside" in caplog.text
    lost(store)
    assert store.names() == {ONE: "toy"}


@pytest.mark.parametrize("bad", ["", "../etc", "a/b", "x" * 65, "-"])
def test_what_is_no_phones_id_touches_no_file(store: HealthStore, tmp_path: Path, bad: str) -> None:
    with pytest.raises(ValueError, match="is no phone's id"):
        store.hold(bad, "toy", "held", "", None, now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"cannot be used .* MNN_FARM_STATE moves it"):
        HealthStore(tmp_path / "file").held(ONE, NOW)


def test_looking_leaves_nothing_behind(store: HealthStore, tmp_path: Path) -> None:
    assert store.held(ONE, NOW) is None
    assert store.failures_of_port("1-4") == ()
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "file"))
    with pytest.raises(HostError, match=r"cannot be used .* MNN_FARM_STATE moves it"):
        HealthStore()


def test_processes_that_note_at_once_lose_nothing(store: HealthStore, tmp_path: Path) -> None:
    def note(number: int) -> None:
        HealthStore(tmp_path).note_failure(ONE, "toy", "1-4", "noisy", str(number), NOW)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(note, range(24)))
    assert sorted(int(failure.detail) for failure in store.failures(ONE)) == list(range(24))
