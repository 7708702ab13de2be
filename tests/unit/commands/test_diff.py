"""``mnn-farm diff``: what A and B may be, the table, the JSON document and the exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.commands import diff_sides
from harness.core.errors import ConfigError
from harness.triage.side import of_facts

SAMPLE = str(Path(__file__).parents[2] / "data" / "two_phones_run")
OK, MISSING = "e32d29", "58e5a6"


def farm(*args: str) -> Result:
    return CliRunner().invoke(app, ["diff", *args])


def refusal(*args: str) -> str:
    error = farm(*args).exception
    assert isinstance(error, ConfigError)
    return str(error)


@pytest.fixture
def devices(tmp_path: Path) -> str:
    """The output of ``mnn-farm devices --json`` with two phones."""
    rows = [
        {"name": "toy-1", "serial": "T1", "soc": "TS900", "sdk": 33, "ram_bytes": 8 << 30, "free_bytes": 9 << 30,
         "battery_pct": 80, "battery_c": None, "nulls": {"battery_c": "it says nothing"}},
        {"name": "toy-2", "serial": "T2", "soc": "TS900", "sdk": 28, "ram_bytes": 8 << 30, "free_bytes": 1 << 30,
         "battery_pct": 80, "battery_c": 30.0, "nulls": {}},
    ]  # fmt: skip
    file = tmp_path / "devices.json"
    file.write_text(json.dumps({"phones": rows, "silent_servers": []}), encoding="utf-8")
    return str(file)


def test_two_cells_tell_how_each_ended_and_what_explains_it() -> None:
    result = farm(f"{SAMPLE}#{OK}", f"{SAMPLE}/results.jsonl#{MISSING}")
    assert result.exit_code == 1
    lines = [line.rstrip() for line in result.output.splitlines()]
    assert lines[:2] == [
        "A: virtual-mid-1 #e32d29: ok",
        "B: virtual-mid-1 #58e5a6: unsupported (backend_missing_on_phone)",
    ]
    assert " * config.backend   cpu   opencl   Each backend has kernels, memory and faults of its own." in lines
    assert "* explains this kind of failure" in result.output


def test_json_is_one_document() -> None:
    result = farm("--json", f"{SAMPLE}:virtual-mid-1", f"{SAMPLE}:4BF9C4283646")
    assert result.exit_code == 1
    told = json.loads(result.output)
    assert (told["a"], told["b"], told["failures"], told["unknown"]) == (
        "virtual-mid-1",
        "virtual-high-opencl-1",
        [],
        [],
    )
    first = told["differences"][0]
    assert (first["field"], first["a"], first["b"], first["weight"], first["matters"]) == (
        "opencl", "", "/vendor/lib64/libOpenCL.so", 88, True,
    )  # fmt: skip
    assert "backend_missing_on_phone" in first["explains"]
    assert told["same"] > 30


def test_a_phone_beside_itself_ends_with_0() -> None:
    result = farm(f"{SAMPLE}:virtual-mid-1", f"{SAMPLE}:6A3A0D53C6E3")
    assert result.exit_code == 0
    assert "No difference that could matter is known." in result.output


def test_all_shows_what_is_folded() -> None:
    words = (f"{SAMPLE}:virtual-mid-1", f"{SAMPLE}:virtual-high-opencl-1")
    folded, whole = farm(*words).output, farm("--all", *words).output
    assert "more differ and hardly matter (--all shows them)" in folded
    assert "Fennel F24 Pro" not in folded
    assert "Fennel F24 Pro" in whole


def test_phones_of_devices_json_are_compared_and_what_it_does_not_tell_is_said(devices: str) -> None:
    result = farm("--json", f"{devices}:T1", f"{devices}:toy-2")
    told = json.loads(result.output)
    assert [(row["field"], row["a"], row["b"]) for row in told["differences"]] == [
        ("sdk", 33, 28),
        ("storage_free_bytes", 9 << 30, 1 << 30),
    ]
    assert told["unknown"] == [{"field": "battery.temp_c", "a": "it says nothing", "b": None}]
    beside_run = json.loads(farm("--json", f"{devices}:toy-1", f"{SAMPLE}:virtual-mid-1").output)
    assert {"field": "page_size", "a": "devices.json does not tell", "b": None} in beside_run["unknown"]


def test_what_is_not_known_for_one_reason_is_one_line() -> None:
    lines = farm(f"{SAMPLE}#{OK}", f"{SAMPLE}:virtual-mid-1").output.splitlines()
    [line] = [line for line in lines if line.endswith(" (B: a phone alone has no cell: name RUN#CELL)")]
    assert line.startswith("not compared: config.backend, model.hash, bundle.engine, ")


def test_any_other_word_is_a_phone_that_is_asked(monkeypatch: pytest.MonkeyPatch, devices: str) -> None:
    asked = []

    def answer(word: str, adb: str | None) -> object:
        asked.append((word, adb))
        return of_facts(word, {"soc": "TS900", "sdk": 33})

    monkeypatch.setattr(diff_sides, "_asked", answer)
    assert farm("10.0.0.7:5555", f"{devices}:toy-1", "--adb", "lab:5037").exit_code == 0
    assert asked == [("10.0.0.7:5555", "lab:5037")]


def test_features_that_mean_the_same_are_one_row(tmp_path: Path) -> None:
    features = ["asimd", "asimddp", "i8mm"]
    for name, has in (("a", features), ("b", features[:1])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "cpu_features": has}), encoding="utf-8")
    output = farm(str(tmp_path / "a.json"), str(tmp_path / "b.json")).output
    assert " cpu_feature.asimddp, i8mm   yes   no " in output


def test_a_cell_without_its_runs_head_is_compared_by_its_record(tmp_path: Path) -> None:
    shutil.copy(Path(SAMPLE, "results.jsonl"), tmp_path)
    told = json.loads(farm("--json", f"{tmp_path}#{OK}", f"{SAMPLE}#{OK}").output)
    assert told["differences"] == []
    assert {"field": "page_size", "a": "run.json, which holds the phone's facts, is not beside results.jsonl",
            "b": None} in told["unknown"]  # fmt: skip


def test_a_bracket_in_a_phones_word_is_no_markup_and_an_escape_does_not_reach_the_terminal(tmp_path: Path) -> None:
    for name, word in (("a", "[bold]x[/bold]"), ("b", "\x1b[31mred")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "driver": word}), encoding="utf-8")
    output = farm(str(tmp_path / "a.json"), str(tmp_path / "b.json")).output
    assert "[bold]x[/bold]" in output
    assert "\x1b" not in output


def test_a_name_that_nobody_has_lists_those_that_are_there(devices: str) -> None:
    both = "virtual-high-opencl-1 (4BF9C4283646), virtual-mid-1 (6A3A0D53C6E3)"
    assert refusal(f"{SAMPLE}:toy", SAMPLE) == f"{SAMPLE}: no phone is called toy: name one after a colon: {both}"
    assert refusal(SAMPLE, SAMPLE) == f"{SAMPLE}: 2 phones are there: name one after a colon: {both}"
    assert refusal(devices, devices).endswith("2 phones are there: name one after a colon: T1, T2")


def test_a_cell_that_is_not_there_lists_the_cells() -> None:
    assert refusal(f"{SAMPLE}#zz", SAMPLE).startswith(
        f"{SAMPLE}: no cell begins with 'zz': name one of these: e32d29 (virtual-mid-1, smollm2-135m, cpu, ok), "
    )
    assert f"{SAMPLE}: 16 cells begin with ''" in refusal(f"{SAMPLE}#", SAMPLE)


def test_what_is_no_run_and_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    (tmp_path / "y.json").write_text('{"hello": 1}', encoding="utf-8")
    assert "cannot be read as JSON" in refusal(str(tmp_path / "x.json"), SAMPLE)
    assert "holds no facts of a phone" in refusal(str(tmp_path / "y.json"), SAMPLE)
    assert "no such run or file" in refusal(str(tmp_path / "z.json"), SAMPLE)
    assert "is not a run folder" in refusal(f"{tmp_path}:toy", SAMPLE)
    assert "has no results.jsonl" in refusal(f"{tmp_path}#1", SAMPLE)


def test_help_has_an_example() -> None:
    assert "Example: mnn-farm diff reports/RUN#4f3a91 reports/RUN#b02c77" in farm("--help").output
