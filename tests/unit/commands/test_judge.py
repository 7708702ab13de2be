"""``mnn-farm judge``: text and JSON, files and stdin, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"
OK, BAD = str(SAMPLES / "llm_demo_ok.txt"), str(SAMPLES / "llm_bench_default.txt")


def farm(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["judge", *args], input=stdin)


def test_believed_figures_are_shown_and_end_with_0() -> None:
    result = farm(OK)
    assert result.exit_code == 0
    assert result.output.startswith(f"{OK}: ok: 2 figures; nothing speaks against\n  ok  prefill 569.98 tok/s\n")


def test_what_is_not_believed_has_its_reason_and_its_evidence() -> None:
    result = farm(BAD)
    assert result.exit_code == 1
    assert (
        "  rejected (noisy)  cpu 2 threads low tg128 decode 94.08 tok/s\n      why:      the repeats" in result.output
    )
    assert "      evidence: | m  " in result.output


def test_options_change_the_verdict() -> None:
    assert "rejected (token_count_short)" in farm(BAD, "--cv-limit", "0.2").output
    assert "rejected (backend_unproven)" in farm(OK, "--backend", "OpenCL").output


def test_stdin_is_read_and_json_is_one_document() -> None:
    result = farm("-", "--json", stdin=(SAMPLES / "llm_demo_truncated_weight.txt").read_bytes())
    told = json.loads(result.output)
    assert result.exit_code == 1
    assert (told["ok"], told["verdict"], told["reason"]) == (False, "failed", "load_error")
    assert [figure["value"] for figure in told["figures"]] == [None, None]
    assert set(told["figures"][0]) == {"name", "value", "unit", "verdict", "reason", "detail", "evidence"}


def test_several_files_are_one_document_too() -> None:
    told = json.loads(farm(OK, BAD, "--json").output)
    assert (told["ok"], told["verdict"], told["reason"], len(told["figures"])) == (False, "rejected", "noisy", 4)
    assert [(entry["file"], entry["ok"]) for entry in told["files"]] == [(OK, True), (BAD, False)]


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    result = farm("-", stdin=b"E/MNNJNI: [Error]: \x1b]0;gone\x07 \x08\n")
    assert result.exit_code == 1
    assert not any(char in result.output for char in "\x1b\x07\x08")


@pytest.mark.parametrize("args", [[], [OK, "--cv-limit", "-1"], [OK, "--cv-limit", "x"], ["--json"]])
def test_wrong_usage_ends_with_2(args: list[str]) -> None:
    assert farm(*args).exit_code == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = farm(str(tmp_path / "x")).exception
    assert str(error) == f"{tmp_path / 'x'} cannot be read (No such file or directory): name a file, or - for stdin"
