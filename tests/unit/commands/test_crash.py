"""``mnn-farm crash``: which cell is meant, what is in the zip, and what is said."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.core.reasons import Reason
from harness.report.cells import pytest_id
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

LINK = b'CANNOT LINK EXECUTABLE "./farm_runner": library "libc++_shared.so" not found: needed by main executable\n'


def farm(*args: object) -> Result:
    return CliRunner().invoke(app, ["crash", *map(str, args)])


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of records."""
    return load_module(Path(__file__).parents[1] / "report" / "factory.py")


@pytest.fixture
def run(make: ModuleType, tmp_path: Path) -> Callable[..., Path]:
    """A run folder with these records."""

    def build(*records: CellRecord) -> Path:
        folder = RunFolder.create(tmp_path / "run")
        folder.write_info(make.info(command=["pytest", "--devices", "S-atlas", "--run-dir", "x"]))
        for record in records:
            folder.append(record)
            if record.raw is not None:
                raw = folder.path / record.raw
                raw.mkdir(parents=True)
                (raw / "stderr").write_bytes(LINK)
                (raw / "stdout").write_bytes(b"from S-atlas at 10.0.0.7:5555\n")
        return folder.path

    return build


def with_bundle(run: Path, record: CellRecord, files: dict[str, bytes], **head: Any) -> None:
    """Put a crash bundle beside a record, as a run does."""
    assert record.raw is not None
    folder = run / record.raw / "crash"
    listed = []
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        evidence = name.startswith("evidence/")
        listed.append({"name": name, "bytes": len(data), "source": "x", "cut": None, "evidence": evidence})
    (folder / "crash.json").write_text(json.dumps({"schema": 1, "files": listed, "missing": [], **head}))


def failed(make: ModuleType, name: str = "atlas", reason: Reason = Reason.LINK_ERROR, **over: Any) -> CellRecord:
    record: CellRecord = make.record(name, reason=reason, raw=f"raw/{name}/1/", detail="it went wrong", **over)
    return record


def test_the_only_cell_that_failed_is_meant_and_its_zip_is_read_by_triage(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path
) -> None:
    folder = run(make.record("birch"), failed(make))
    done = farm(folder, "-o", tmp_path / "a.zip")
    assert done.exit_code == 0, done.output
    assert "not in it: crash bundle (none was collected" in done.output
    assert "use --redact before it goes to strangers" in done.output
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert set(files) == {
        "README.md", "crash.json", "record.json", "facts.json", "run.json", "raw/stderr.log", "raw/stdout.log",
    }  # fmt: skip
    for one in json.loads(files["crash.json"])["files"]:
        assert one["sha256"] == hashlib.sha256(files[one["name"]]).hexdigest()
    readme = files["README.md"].decode()
    assert readme.startswith("# link_error on Model atlas\n")
    assert "pytest --devices S-atlas -k " in readme
    told = CliRunner().invoke(app, ["triage", str(tmp_path / "a.zip"), "--json"])
    assert json.loads(told.stdout)["findings"][0]["code"] == "missing_shared_library"


def test_of_a_collected_bundle_triage_reads_the_evidence_alone_and_knows_the_functions_that_were_named(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path
) -> None:
    record = failed(make, reason=Reason.CRASH)
    folder = run(record)
    block = b"""*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
pid: 7, tid: 7, name: x  >>> farm_runner <<<
signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0
      #00 pc 0000000000001018  /data/local/tmp/x/libMNN.so
"""
    frame = {"path": "/data/local/tmp/x/libMNN.so", "pc": "0000000000001018", "function": "MNN::Session::resize()+24"}
    files = {"evidence/tombstone_03.txt": block, "record.json": b"{}", "logcat.log": b"Killed\n"}
    with_bundle(folder, record, files, frames=[frame], transport="10.0.0.7:5555")
    done = farm(folder, record.cell_id[:9], "-o", tmp_path / "a.zip", "--redact")
    assert done.exit_code == 0, done.output
    (tmp_path / "obj").mkdir()
    for more in ([], ["--symbols", str(tmp_path / "obj")]):
        told = CliRunner().invoke(app, ["triage", str(tmp_path / "a.zip"), "--json", *more])
        [finding] = json.loads(told.stdout)["findings"]
        assert finding["evidence"][0]["source"] == "a.zip!evidence/tombstone_03.txt"
        assert any("MNN::Session::resize()+24" in one["text"] for one in finding["evidence"])


def test_redacted_it_names_nobody_and_says_what_was_masked(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path
) -> None:
    record = failed(make)
    done = farm(run(record), pytest_id(record), "-o", tmp_path, "--redact", "--json")
    [told] = json.loads(done.stdout)["zips"]
    assert Path(told["zip"]).name == f"crash-link_error-{record.cell_id[:6]}.zip"
    assert {line.partition(":")[0] for line in told["masked"]} >= {"serial", "ip", "phone", "phone-id"}
    with zipfile.ZipFile(told["zip"]) as archive:
        for name in archive.namelist():
            for secret in (b"S-atlas", b"id-of-atlas", b"10.0.0.7"):
                assert secret not in archive.read(name), name
        assert archive.read("raw/stdout.log") == b"from <serial-1> at <ip-1>:5555\n"


def test_several_that_failed_are_listed_and_all_are_packed_when_asked(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path
) -> None:
    records = [failed(make), failed(make, "birch", Reason.CRASH), make.record("cedar", reason=Reason.DEVICE_LOST)]
    folder = run(*records)
    done = farm(folder)
    assert done.exit_code == 2
    for record in records[:2]:
        assert (
            f"{record.cell_id[:12]}  {pytest_id(record)}\n    failed, {record.reason}: it went wrong\n" in done.output
        )
    assert records[2].cell_id[:12] not in done.output, "that is no fault of the product"
    assert "2 cells failed: name one" in done.output
    assert farm(folder, "--all", "-o", tmp_path / "zips").exit_code == 0
    assert len(list((tmp_path / "zips").glob("crash-*.zip"))) == 2


@pytest.mark.parametrize("word", ["{id:.8}", "{test}", "tests/device/test_generation.py::{test}", "{inside}"])
def test_a_cell_is_named_by_its_id_or_by_its_test(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path, word: str
) -> None:
    record = failed(make)
    test = pytest_id(record)
    named = word.format(id=record.cell_id, test=test, inside=test[len("test_generation[") : -1])
    assert farm(run(record, failed(make, "birch")), named, "-o", tmp_path / "a.zip").exit_code == 0


def test_when_nothing_failed_there_is_nothing_to_report(make: ModuleType, run: Callable[..., Path]) -> None:
    done = farm(run(make.record()))
    assert (done.exit_code, done.output) == (0, "No cell failed: there is nothing to report.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["zzz"], "no cell is called 'zzz'"), (["x", "--all"], "--all is every cell that failed")],
)
def test_wrong_words_are_one_sentence(make: ModuleType, run: Callable[..., Path], words: list[str], said: str) -> None:
    done = farm(run(failed(make), failed(make, "birch")), *words)
    assert said in str(done.exception)


def test_what_a_manifest_of_a_run_folder_names_elsewhere_is_not_packed(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path
) -> None:
    record = failed(make)
    folder = run(record)
    with_bundle(folder, record, {"record.json": b"{}"})
    (tmp_path / "secret").write_text("secret")
    assert record.raw is not None
    crash = folder / record.raw / "crash"
    (crash / "link.log").symlink_to(tmp_path / "secret")
    document = json.loads((crash / "crash.json").read_text())
    document["files"] += [{"name": name} for name in ("../../../../secret", "link.log", "/etc/passwd", "gone")] + ["x"]
    (crash / "crash.json").write_text(json.dumps(document))
    done = farm(folder, "-o", tmp_path / "a.zip", "--json")
    [told] = json.loads(done.stdout)["zips"]
    assert [one["what"] for one in told["missing"]] == ["../../../../secret", "link.log", "/etc/passwd", "gone"]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert b"secret" not in b"".join(
            archive.read(name) for name in archive.namelist() if name != "crash.json" and name != "README.md"
        )


@pytest.mark.parametrize(
    "manifest",
    ["[]", "3", "null", '{"deaths": 5, "files": {"a": 1}, "missing": 3}', '{"files": [{"name": null}, 7]}', "{"],
)
def test_a_manifest_that_is_none_costs_only_what_it_would_have_listed(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path, manifest: str
) -> None:
    record = failed(make)
    folder = run(record)
    with_bundle(folder, record, {"record.json": b"{}"})
    assert record.raw is not None
    (folder / record.raw / "crash" / "crash.json").write_text(manifest)
    assert farm(folder, "-o", tmp_path / "a.zip", "--redact").exit_code == 0
    told = CliRunner().invoke(app, ["triage", str(tmp_path / "a.zip"), "--json"])
    assert json.loads(told.stdout)["findings"][0]["code"] == "missing_shared_library"


def test_who_ran_it_and_phones_that_took_no_part_are_masked_too(
    make: ModuleType, run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "idas-laptop")
    record = failed(make)
    folder = run(record)
    RunFolder(folder).write_info(
        make.info(command=["pytest", "--devices", "S-atlas,R58N12ABCDE", "--bundle", "/home/ida/b"])
    )
    assert record.raw is not None
    (folder / record.raw / "stdout").write_bytes(b"held by idas-laptop (b/n), R58N12ABCDE is busy\n")
    assert farm(folder, "-o", tmp_path / "a.zip", "--redact").exit_code == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert files["raw/stdout.log"] == b"held by <host-1> (b/n), <serial-1> is busy\n"
    assert b"pytest --devices '<serial-2>,<serial-1>' --bundle '/home/<user-1>/b'" in files["README.md"]
    assert not any(word in data for data in files.values() for word in (b"idas-laptop", b"R58N12ABCDE", b"/home/ida"))


def test_help_shows_an_example() -> None:
    assert "Example: mnn-farm crash reports/" in farm("--help").output
