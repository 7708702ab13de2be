"""Verbs that need no phone: histories, and names that nobody has."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.commands.devices import app
from harness.core.errors import ConfigError, HostError
from harness.core.ids import utc_now
from harness.phone.health import HealthStore

ID = "11111111-aaaa"


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HealthStore:
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path))
    return HealthStore()


def farm(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_no_history_is_said(health: HealthStore) -> None:
    assert farm("history").output == "no failure is on record\n"
    assert json.loads(farm("history", "--json").output) == {"phones": [], "ports": []}


def test_history_names_the_hold_and_each_failure(health: HealthStore) -> None:
    hold = health.quarantine(ID, "toy", "1-4", "device_lost", "gone amid a push", utc_now())
    health.note_failure("22222222-bbbb", "doll", "1-4", "rebooted", "", utc_now())
    text = farm("history", "toy").output
    assert text.startswith(f"toy is {hold.text}\n")
    assert "gone amid a push" in text
    assert "doll" not in text
    told = json.loads(farm("history", "--json").output)
    assert [(row["port"], row["failures"]) for row in told["ports"]] == [("1-4", 2)]


def test_a_phone_that_is_not_plugged_in_is_released_by_name_or_by_id(health: HealthStore) -> None:
    for word in ("toy", ID):
        hold = health.hold(ID, "toy", "held", "glass", utc_now() + timedelta(hours=1), "person")
        assert farm("release", word).output == f"{word} is released; it was {hold.text}\n"
        assert health.held(ID, utc_now()) is None


def test_a_name_that_nobody_had_lists_those_that_are_known(health: HealthStore) -> None:
    health.hold(ID, "toy", "held", "", None, "person")
    error = farm("history", "doll").exception
    assert isinstance(error, ConfigError)
    assert str(error) == "no phone called doll is known here: those that are: toy"


def test_without_a_server_a_phone_that_nobody_knows_cannot_be_held(health: HealthStore) -> None:
    error = farm("hold", "toy", "--adb", "127.0.0.1:1").exception
    assert isinstance(error, HostError)


@pytest.mark.parametrize("hours", ["0", "-1", "x"])
def test_a_hold_lasts_some_time(health: HealthStore, hours: str) -> None:
    assert farm("hold", "toy", "--hours", hours).exit_code == 2
