"""What is said of phones that cannot be asked; phones that can are looked at in tests/integration/test_devices.py."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.fleet.choose import Listed
from harness.fleet.look import Seen, look_at, look_at_all
from harness.phone.health import HealthStore
from harness.plan.tiers import load_tier_rules

NOW = datetime(2031, 5, 4, 3, 2, 1, tzinfo=timezone.utc)


@pytest.fixture
def health(tmp_path: Path) -> HealthStore:
    return HealthStore(tmp_path)


def look(health: HealthStore, state: str = "offline", name: str = "toy") -> Seen:
    listed = Listed(name, AdbServer("lab2", 5037), TransportInfo(name, state, 7, "1-4", "Toy_3"))
    return look_at(listed, load_tier_rules(), health, NOW)


def test_a_phone_that_cannot_be_asked_is_told_with_what_adb_lists(health: HealthStore) -> None:
    seen = look(health)
    assert (seen.name, seen.server, seen.state, seen.transport_id, seen.usb) == (
        "toy",
        "lab2:5037",
        "offline",
        7,
        "1-4",
    )
    assert (seen.model, seen.soc, seen.tier, seen.battery_pct) == ("Toy_3", None, None, None)
    assert seen.why is not None
    assert seen.why.code == "device_offline"


def test_every_unknown_has_its_reason_and_nothing_else_has(health: HealthStore) -> None:
    nulls = look(health).nulls
    assert set(nulls) == {
        "id", "serialno", "soc", "soc_name", "tier", "tier_because", "ram_bytes", "android_release", "sdk",
        "free_bytes", "battery_pct", "battery_c",
    }  # fmt: skip
    assert set(nulls.values()) == {"not asked: adb lists it as offline"}


def test_a_server_that_is_gone_meanwhile_is_the_reason(health: HealthStore) -> None:
    listed = Listed("toy", AdbServer("127.0.0.1", 1), TransportInfo("toy", "device", 7, None, None))
    seen = look_at(listed, load_tier_rules(), health, NOW)
    assert seen.why is not None
    assert seen.why.reason.startswith("the adb server at 127.0.0.1:1 does not answer")


def test_the_hold_of_a_phone_that_cannot_be_asked_is_that_of_its_name(health: HealthStore) -> None:
    hold = health.hold("id-1", "toy", "held", "broken glass", NOW + timedelta(hours=1), "person", now=NOW)
    seen = look(health)
    assert (seen.id, seen.hold) == ("id-1", hold)
    assert seen.why is not None
    assert seen.why.code == "device_offline"  # that comes first, and must be mended first
    assert look(health, name="doll").hold is None


def test_of_two_phones_that_were_called_alike_none_is_guessed(health: HealthStore) -> None:
    for phone_id in ("id-1", "id-2"):
        health.hold(phone_id, "toy", "held", "", None, "person", now=NOW)
    assert look(health).hold is None


def test_no_phones_are_no_work(health: HealthStore) -> None:
    assert look_at_all([], health, NOW) == []
