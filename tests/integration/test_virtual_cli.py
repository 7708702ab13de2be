"""``mnn-farm virtual`` as people use it: phones that outlive the command, and leave nothing when they go."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.adb.server import default_server
from harness.core.errors import HostError
from harness.virtual.provider import VirtualPhones
from harness.virtual.sandbox import find_sandbox

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The command line with a cache of its own; phones that a failed test left are taken down."""
    try:
        find_sandbox()
    except HostError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "harness.cli", "virtual", *words]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    yield run
    run("down")


def listed(farm: Run) -> list[dict[str, object]]:
    result = farm("list", "--json")
    assert result.returncode == 0
    phones: list[dict[str, object]] = json.loads(result.stdout)["phones"]
    return phones


def test_phones_outlive_the_command_and_the_printed_line_leads_to_them(
    farm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = farm("up", "2", "--profile", "low")
    assert result.returncode == 0
    match = re.search(r"^export ANDROID_ADB_SERVER_PORT=(\d+)$", result.stdout, re.MULTILINE)
    assert match is not None
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", match[1])
    transports = default_server().transports()
    assert {(transport.serial, transport.state) for transport in transports} == {
        (phone["serial"], "device") for phone in listed(farm)
    }
    assert [phone["name"] for phone in listed(farm)] == ["virtual-low-1", "virtual-low-2"]


def test_down_leaves_no_process_and_nothing_of_the_phone(farm: Run, tmp_path: Path) -> None:
    farm("up", "2", "--profile", "low")
    supervisor = psutil.Process(int(str(listed(farm)[0]["supervisor_pid"])))
    family = [supervisor, *supervisor.children(recursive=True)]
    assert farm("down", "virtual-low-1").stdout == "virtual-low-1 is down\n"
    assert [phone["name"] for phone in listed(farm)] == ["virtual-low-2"]
    assert farm("down").stdout == "virtual-low-2 is down\n"
    assert listed(farm) == []
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)
    for name in ("virtual-low-1", "virtual-low-2"):
        assert not (tmp_path / "cache" / "virtual" / name).exists()
    assert farm("down").stdout == "nothing to take down\n"


def test_a_supervisor_killed_with_9_takes_its_phones_along_and_the_name_is_free_again(farm: Run) -> None:
    farm("up", "1", "--profile", "low")
    supervisor = psutil.Process(int(str(listed(farm)[0]["supervisor_pid"])))
    family = supervisor.children(recursive=True)
    assert len(family) >= 4
    supervisor.kill()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert listed(farm) == []
    assert "virtual-low-1" in farm("up", "1", "--profile", "low").stdout


def test_data_is_kept_when_asked_for(farm: Run, tmp_path: Path) -> None:
    farm("up", "1", "--profile", "low")
    tmp = tmp_path / "cache/virtual/virtual-low-1/data/local/tmp"
    (tmp / "mine").write_text("x")
    farm("down", "--keep-data")
    assert (tmp / "mine").read_text() == "x"


def test_a_fault_is_given_by_serial_or_name_shown_in_the_list_and_healed(farm: Run) -> None:
    farm("up", "1", "--profile", "low")
    serial = str(listed(farm)[0]["serial"])
    assert "faults: slow=5000" in farm("fault", serial, "slow=5000").stdout
    assert listed(farm)[0]["faults"] == ["slow=5000"]
    assert farm("fault", "virtual-low-1", "heal").returncode == 0
    assert listed(farm)[0]["faults"] == []


def test_phones_of_a_running_program_are_listed_but_not_taken_down(farm: Run) -> None:
    provider = VirtualPhones()
    try:
        provider.start(["low"])
        assert listed(farm)[0]["detached"] is False
        refused = farm("down", "virtual-low-1")
        assert refused.returncode == 3
        assert "belongs to a running program" in refused.stderr
        assert farm("down").stdout == "nothing to take down\n"
        assert len(listed(farm)) == 1
    finally:
        provider.stop()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "0"), "0 virtual phones cannot be had"),
        (("up", "1", "--profile", "hgih"), "no virtual phone is described as 'hgih'"),
        (("fault", "nobody", "heal"), "no virtual phone called 'nobody' is up"),
        (("down", "../x"), "no virtual phone called '../x' is up"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(farm: Run, words: tuple[str, ...], said: str) -> None:
    result = farm(*words)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["up", "list", "down", "fault"])
def test_every_verb_has_an_example_in_its_help(farm: Run, verb: str) -> None:
    assert f"Example: mnn-farm virtual {verb}" in " ".join(farm(verb, "--help").stdout.split())
