"""``mnn-farm triage``: text and JSON, files, zips and stdin, redaction, and its exit status."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.core.errors import FarmError

OFFLINE = b"List of devices attached\nR58N12ABCDE\toffline\n"


def farm(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["triage", *args], input=stdin)


def test_a_finding_is_shown_with_whose_fault_it_is_its_evidence_and_steps(tmp_path: Path) -> None:
    log = tmp_path / "adb.txt"
    log.write_bytes(OFFLINE)
    result = farm(str(log))
    assert result.exit_code == 1
    assert result.output.startswith(
        "1. error: The phone is listed but offline: adb's link to it is dead\n   fault:  infra (adb_offline)\n"
    )
    assert f"   seen:   {log}:2: R58N12ABCDE offline\n" in result.output
    assert "   do 1:   Classify it as infra" in result.output


def test_json_is_one_document_and_stdin_is_read() -> None:
    result = farm("-", "--json", stdin=OFFLINE)
    assert result.exit_code == 1
    (finding,) = json.loads(result.output)["findings"]
    assert (finding["code"], finding["severity"], finding["fault"]) == ("adb_offline", "error", "infra")
    assert finding["evidence"] == [{"source": "stdin", "line": 2, "text": "R58N12ABCDE offline"}]


def test_redact_masks_the_serial() -> None:
    assert "R58N12ABCDE" not in farm("-", "--json", "--redact", stdin=OFFLINE).output


def test_redact_masks_what_another_file_calls_a_serial(tmp_path: Path) -> None:
    (tmp_path / "devices.txt").write_text("List of devices attached\nR58N12ABCDE\tdevice\n")
    (tmp_path / "push.txt").write_text(
        "adb: error: failed to copy 'm' to '/data/local/tmp/R58N12ABCDE/m': remote write failed: "
        "No space left on device\n"
    )
    told = farm("--redact", str(tmp_path / "push.txt"), str(tmp_path / "devices.txt")).output
    assert "/data/local/tmp/<serial-1>/m" in told
    assert "R58N12ABCDE" not in told


@pytest.mark.parametrize(
    ("text", "status"),
    [(b"hello\n", 0), (b"Load Cache file error.\n", 0), (b"Thermal Status: 3\n", 0), (b"Killed\n", 1)],
)
def test_only_an_error_ends_with_1(text: bytes, status: int) -> None:
    assert farm("-", stdin=text).exit_code == status


def test_of_an_unknown_text_nothing_is_said() -> None:
    assert farm("-", "--json", stdin=b"hello\n").output == '{\n "findings": []\n}\n'
    assert farm("-", stdin=b"hello\n").output == "Nothing is known of this: no finding.\n"


def test_several_files_are_one_case(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("Killed\n", encoding="utf-8")
    (tmp_path / "log").write_text(
        "I lowmemorykiller: Kill 'a' (1), uid 2, oom_score_adj 900 to free 1kB rss, 0kB swap; reason: device is low\n",
        encoding="utf-8",
    )
    told = json.loads(farm(str(tmp_path / "out"), str(tmp_path / "log"), "--json").output)
    assert [(one["code"], len(one["evidence"])) for one in told["findings"]] == [("out_of_memory", 2)]


def test_the_texts_in_a_zip_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bugreport.zip", "w") as archive:
        archive.writestr("main_entry.txt", "nothing")
        archive.writestr("FS/data/tombstones/tombstone_00", "signal 4 (SIGILL), code 1 (ILL_ILLOPC), fault addr 0x10\n")
        archive.writestr("screen.png", b"\x89PNG Killed\n")
    told = json.loads(farm(str(tmp_path / "bugreport.zip"), "--json").output)
    assert [one["code"] for one in told["findings"]] == ["sigill_isa"]
    assert told["findings"][0]["evidence"][0]["source"] == "bugreport.zip!FS/data/tombstones/tombstone_00"


def test_a_zip_with_a_broken_member_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log.txt", b"Killed\n" * 100)
    path.write_bytes(path.read_bytes().replace(b"Killed", b"kIlled", 1))
    error = farm(str(path)).exception
    assert str(error).startswith("a file in the zip cannot be read (Bad CRC-32 for file 'log.txt')")


@pytest.mark.parametrize("args", [[], ["--json"], ["-", "--nonsense"]])
def test_wrong_usage_ends_with_2(args: list[str]) -> None:
    assert farm(*args).exit_code == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = farm(str(tmp_path / "x")).exception
    assert str(error) == f"{tmp_path / 'x'} is no file: name a file, or - for stdin"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8), st.booleans())
def test_a_zip_that_is_broken_anywhere_is_read_or_refused_in_one_sentence(
    tmp_path: Path, changes: list[tuple[int, int]], is_bundle: bool
) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("evidence/stderr.log", b"Killed\n" * 900)
        if is_bundle:
            files = [{"name": "evidence/stderr.log", "evidence": True}]
            archive.writestr("crash.json", json.dumps({"schema": 1, "files": files}))
    data = bytearray(out.getvalue())
    for place, value in changes:
        data[place % len(data)] = value
    (tmp_path / "x.zip").write_bytes(data)
    done = farm(str(tmp_path / "x.zip"), "--redact")
    assert done.exception is None or isinstance(done.exception, SystemExit | FarmError), done.exception
