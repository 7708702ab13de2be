"""Several run folders become one: every attempt once, its raw output with it, and which attempt counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.store.head import FleetMember, LeftOut, RunInfo, Source
from harness.store.merge import merge
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, PhoneInfo

Values = Callable[..., dict[str, Any]]
Make = Callable[..., RunFolder]
HASHES = {"one": "1" * 64, "two": "2" * 64, "three": "3" * 64}


def member(name: str) -> FleetMember:
    phone = PhoneInfo(
        id=f"id-{name}", serial=f"S-{name}", name=name, model=None, soc=None, tier="mid", fingerprint=None,
        boot_id=None, driver=None,
    )  # fmt: skip
    return FleetMember(phone=phone, provider="adb", facts={})


def head(run_id: str, *phones: str, **over: Any) -> RunInfo:
    values: dict[str, Any] = {
        "run_id": run_id, "started": f"2026-01-0{len(run_id)}T00:00:00Z", "command": ("pytest", run_id),
        "harness_version": "0", "versions": {}, "host": {}, "plan_name": "mine", "plan": {"threads": [1, 2]},
        "fleet": tuple(map(member, phones)), "cells": 2 * len(phones),
        "models": {"toy": Source(name="toy", hash="a" * 64, folder="/m")},
    }  # fmt: skip
    return RunInfo.model_validate(values | over)


@pytest.fixture
def make(tmp_path: Path, values: Values) -> Make:
    """Make a run folder with records of ``(cell, started)`` or ``(cell, started, reason)``."""

    def folder(info: RunInfo, *cells: tuple[Any, ...]) -> RunFolder:
        made = RunFolder.create(tmp_path / info.run_id)
        made.write_info(info)
        for cell, started, *reasons in cells:
            number = 1 + made.attempts_of(HASHES[cell])
            raw = made.raw_dir(HASHES[cell], number)
            (raw / "stdout").write_text(f"{info.run_id} {cell} {started}")
            over = {"cell_id": HASHES[cell], "started": started, "attempt": number, "run_id": info.run_id}
            for reason in reasons:
                over |= {"verdict": reason.verdict, "reason": reason.code, "fault": reason.fault}
            made.append(CellRecord.model_validate(values(**over, raw=made.relative(raw))))
        return made

    return folder


def stdout_of(folder: RunFolder, record: CellRecord) -> str:
    assert record.raw is not None
    return (folder.path / record.raw / "stdout").read_text()


def test_cells_of_two_controllers_are_all_there_with_their_raw_output(make: Make, tmp_path: Path) -> None:
    first = make(head("r1", "high"), ("one", "2026-01-01T00:00:00Z"))
    second = make(head("run2", "low"), ("two", "2026-01-02T00:00:00Z"), ("three", "2026-01-02T00:01:00Z"))
    before = second.results.read_bytes()
    done = merge([second.path, first.path], tmp_path / "all", ["merge"])
    folder = RunFolder.open(done.path)
    assert (done.records, done.cells, done.same, done.shared, done.without_raw) == (3, 3, 0, 0, 0)
    assert [stdout_of(folder, record) for record in folder.records()] == [
        "r1 one 2026-01-01T00:00:00Z", "run2 two 2026-01-02T00:00:00Z", "run2 three 2026-01-02T00:01:00Z",
    ]  # fmt: skip
    assert [record.run_id for record in folder.records()] == ["r1", "run2", "run2"]
    info = folder.read_info()
    assert [one.phone.name for one in info.fleet] == ["high", "low"]
    assert (info.cells, info.started, info.command) == (4, "2026-01-02T00:00:00Z", ("merge",))
    assert [(start.command, start.phones) for start in info.resumptions] == [(("pytest", "run2"), ("low",))]
    assert second.results.read_bytes() == before


def test_a_final_attempt_counts_before_a_later_one_that_is_not(make: Make, tmp_path: Path) -> None:
    first = make(head("r1", "high"), ("one", "2026-01-01T00:00:00Z"))
    second = make(head("run2", "high"), ("one", "2026-01-09T00:00:00Z", Reason.DEVICE_LOST))
    done = merge([first.path, second.path], tmp_path / "all", [])
    folder = RunFolder.open(done.path)
    assert done.shared == 1
    assert [(one.attempt, one.reason, one.run_id) for one in folder.records()] == [
        (1, "device_lost", "run2"), (2, None, "r1"),
    ]  # fmt: skip
    assert [stdout_of(folder, record)[:4] for record in folder.records()] == ["run2", "r1 o"]
    assert [one.reason for one in folder.latest()] == [None]
    assert folder.read_info().cells == 2, "the phone's cells were planned twice and are there once"


def test_of_two_final_attempts_the_later_counts(make: Make, tmp_path: Path) -> None:
    first = make(head("r1", "high"), ("one", "2026-01-08T00:00:00Z"))
    second = make(head("run2", "high"), ("one", "2026-01-03T00:00:00Z", Reason.OUTPUT_WRONG))
    done = merge([first.path, second.path], tmp_path / "all", [])
    assert [one.reason for one in RunFolder.open(done.path).latest()] == [None]


def test_a_folder_merged_again_adds_nothing(make: Make, tmp_path: Path) -> None:
    first = make(head("r1", "high"), ("one", "2026-01-01T00:00:00Z"))
    second = make(head("run2", "low"), ("two", "2026-01-02T00:00:00Z"))
    both = merge([first.path, second.path], tmp_path / "both", [])
    again = merge([both.path, first.path, second.path], tmp_path / "again", [])
    assert (again.records, again.cells, again.same) == (2, 2, 2)
    assert RunFolder.open(again.path).read_info().cells == 4


def test_who_was_missing_in_one_run_and_took_part_in_another_is_not_missing(make: Make, tmp_path: Path) -> None:
    left = (LeftOut(name="low", reason="offline"), LeftOut(name="other", reason="busy"))
    first = make(head("r1", "high", left_out=left))
    second = make(head("run2", "low"))
    info = RunFolder.open(merge([first.path, second.path], tmp_path / "all", []).path).read_info()
    assert [one.name for one in info.still_left_out] == ["other"]


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"plan": {"threads": [4]}}, r"threads was [1, 2] and is [4]"),
        ({"models": {"toy": Source(name="toy", hash="b" * 64, folder="/m")}}, "model toy was aaaaaaaaaaaa and is bbbb"),
    ],
)
def test_another_plan_or_model_is_refused_and_nothing_is_left(
    make: Make, tmp_path: Path, over: dict[str, Any], words: str
) -> None:
    first, second = make(head("r1", "high")), make(head("run2", "low", **over))
    with pytest.raises(ConfigError) as refused:
        merge([first.path, second.path], tmp_path / "all", [])
    assert words in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r1", "run2"]


def test_a_place_that_is_taken_or_one_folder_alone_is_refused(make: Make, tmp_path: Path) -> None:
    first, second = make(head("r1", "high")), make(head("run2", "low"))
    with pytest.raises(ConfigError, match="is there already"):
        merge([first.path, second.path], first.path, [])
    with pytest.raises(ConfigError, match="one run folder alone"):
        merge([first.path, tmp_path / "r1" / ".." / "r1"], tmp_path / "all", [])


@pytest.mark.parametrize("raw", ["../../secret/", "raw/../../secret/1/", "/etc/", "raw/linked/1/"])
def test_a_record_that_names_other_files_brings_none_along(
    make: Make, tmp_path: Path, values: Values, raw: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    bent = make(head("r1", "high"))
    (bent.path / "raw" / "linked").mkdir(parents=True)
    (bent.path / "raw" / "linked" / "1").symlink_to(secret)
    bent.append(CellRecord.model_validate(values(cell_id=HASHES["one"], raw=raw)))
    done = merge([bent.path, make(head("run2", "low")).path], tmp_path / "all", [])
    assert done.without_raw == 1
    assert not list(done.path.rglob("key"))


def test_the_verb_makes_a_report_of_all(make: Make, tmp_path: Path) -> None:
    first = make(head("r1", "high"), ("one", "2026-01-01T00:00:00Z"))
    second = make(head("run2", "low"), ("two", "2026-01-02T00:00:00Z"))
    done = CliRunner().invoke(app, ["merge", str(first.path), str(second.path), "-o", str(tmp_path / "all")])
    assert done.exit_code == 0, done.output
    assert "2 cells, 2 attempts" in done.output
    assert "r1" in (tmp_path / "all" / "results.csv").read_text()
    assert (tmp_path / "all" / "report.html").stat().st_size > 10_000
