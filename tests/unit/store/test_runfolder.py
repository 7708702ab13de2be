from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError, FarmError
from harness.core.reasons import Reason
from harness.store import runfolder
from harness.store.head import Resumption, RunInfo
from harness.store.runfolder import ReadOnce, RunFolder, write_atomically
from harness.store.schema import CellRecord

Values = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run")


@pytest.fixture
def record(values: Values) -> Callable[..., CellRecord]:
    return lambda **over: CellRecord.model_validate(values(**over))


Make = Callable[..., CellRecord]
INFO = RunInfo(
    run_id="r1", started="2026-01-01T00:00:00Z", command=("pytest",), harness_version="0", versions={}, host={},
    plan_name="smoke", plan={}, fleet=(),
)  # fmt: skip


def test_records_come_back_in_the_order_written(folder: RunFolder, record: Make) -> None:
    written = [record(cell_id=f"{n:064d}") for n in range(5)]
    for one in written:
        folder.append(one)
    assert list(folder.records()) == written
    assert folder.results.read_bytes().count(b"\n") == 5


def test_a_folder_without_results_has_no_records(folder: RunFolder) -> None:
    assert list(folder.records()) == []
    assert folder.attempts_of("c" * 64) == 0
    assert folder.latest() == []


@pytest.mark.parametrize("torn", [b'{"schema":1,"record":"cell","run', b"\xff\xfe", b"\0\0\0\0", b"{" * 100_000])
def test_a_torn_last_line_is_closed_and_costs_only_itself(
    folder: RunFolder, record: Make, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = record(attempt=1), record(attempt=2)
    folder.append(first)
    with folder.results.open("ab") as file:
        file.write(torn)
    folder.append(second)
    with caplog.at_level(logging.WARNING):
        assert list(folder.records()) == [first, second]
    assert [m.split(" was passed over")[0] for m in caplog.messages] == ["results.jsonl:2"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"schema":2,"record":"cell"}', "its schema is 2, this version reads 1"),
        (b'{"record":"cell"}', "its schema is None"),
        (b'{"schema":1,"record":"note"}', "it is no cell record"),
        (b'["cell"]', "it is no cell record"),
        (b"null", "it is no cell record"),
        (b'{"schema":1,"record":"cell"}', "validation errors for CellRecord"),
        (b"\xe4\xf6\xfc", "codec can't decode"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_is_no_record_is_passed_over_with_a_word(
    folder: RunFolder, record: Make, line: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = record()
    folder.results.write_bytes(line + b"\n\n   \n" + good.to_json_line())
    with caplog.at_level(logging.WARNING):
        assert list(folder.records()) == [good]
    assert len(caplog.messages) == 1
    assert why in caplog.messages[0]


def test_a_record_that_contradicts_itself_is_passed_over(folder: RunFolder, record: Make) -> None:
    lie = json.loads(record().to_json_line())
    lie["backend"]["actual"] = "opencl"
    folder.results.write_text(json.dumps(lie) + "\n")
    assert list(folder.records()) == []


def test_attempts_are_counted_even_in_lines_that_are_torn(folder: RunFolder, record: Make) -> None:
    folder.append(record(cell_id="a" * 64))
    folder.append(record(cell_id="b" * 64, detail=f'"cell_id":"{"a" * 64}"'))
    with folder.results.open("ab") as file:
        file.write(record(cell_id="a" * 64, attempt=2).to_json_line()[:200])
    assert (folder.attempts_of("a" * 64), folder.attempts_of("b" * 64), folder.attempts_of("d" * 64)) == (2, 1, 0)


def test_the_last_attempt_of_each_cell_counts(folder: RunFolder, record: Make) -> None:
    for cell, attempt in (("a", 1), ("b", 1), ("a", 2)):
        folder.append(record(cell_id=cell * 64, attempt=attempt))
    assert [(r.cell_id[0], r.attempt) for r in folder.latest()] == [("a", 2), ("b", 1)]


def test_an_attempt_that_never_began_does_not_hide_one_that_did(folder: RunFolder, values: Values) -> None:
    nothing = dict.fromkeys(("backend", "metrics", "thermal", "output", "raw"), "it never ran")
    never: dict[str, Any] = {**dict.fromkeys(nothing), "nulls": {**values()["nulls"], **nothing}, "fault": "infra"}

    def attempts(cell: str, *kinds: str) -> None:
        for number, kind in enumerate(kinds, start=1):
            over = {} if kind == "ok" else {**never, "reason": kind}
            over |= {} if kind == "ok" else {"verdict": Reason.from_code(kind).verdict.value}
            folder.append(CellRecord.model_validate(values(cell_id=cell, attempt=number, **over)))

    attempts("a", "ok", "out_of_time")
    attempts("b", "device_lost", "ok", "out_of_time", "phone_gone")
    attempts("c", "out_of_time", "phone_gone")
    attempts("d", "out_of_time", "device_lost")
    attempts("e", "ok", "device_lost")
    assert [(r.cell_id, r.reason, r.attempt) for r in folder.latest()] == [
        ("a", None, 1),
        ("b", None, 2),
        ("c", "phone_gone", 2),
        ("d", "device_lost", 2),
        ("e", "device_lost", 2),
    ]


def _append_many(path: Path, values: dict[str, Any], who: int, count: int) -> None:
    folder = RunFolder(path)
    for number in range(count):
        folder.append(CellRecord.model_validate({**values, "cell_id": f"{who}-{number}", "detail": "x" * 3000}))


def test_two_processes_that_append_at_once_lose_and_mix_nothing(
    folder: RunFolder, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 200
    # The disk's own waits are not what is tested, and four hundred of them take long.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_append_many, args=(folder.path, values(), who, count)) for who in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=30)
    assert [writer.exitcode for writer in writers] == [0, 0]
    ids = [record.cell_id for record in folder.records()]
    assert len(ids) == 2 * count
    for who in (1, 2):
        assert [name for name in ids if name.startswith(f"{who}-")] == [f"{who}-{n}" for n in range(count)]


def test_each_record_is_on_disk_before_append_returns(
    folder: RunFolder, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(folder.results.read_bytes()))
    one = record()
    folder.append(one)
    assert seen == [one.to_json_line()]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_so(folder: RunFolder, record: Make, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FarmError, match="make room on this computer") as caught:
        folder.append(record())
    assert caught.value.reason is Reason.HOST_DISK_FULL
    assert str(folder.results) in str(caught.value)


def test_a_write_that_came_out_short_is_a_full_disk_and_the_next_record_survives(
    folder: RunFolder, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
        with pytest.raises(FarmError) as caught:
            folder.append(record())
    assert caught.value.reason is Reason.HOST_DISK_FULL
    assert folder.results.read_bytes() == b""
    folder.append(record(attempt=2))
    assert [r.attempt for r in folder.records()] == [2]


def test_a_folder_that_went_away_is_no_traceback(tmp_path: Path, record: Make) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FarmError, match=r"cannot be written .*: check that folder and run again"):
        RunFolder(file / "run").append(record())


def test_a_lock_that_is_held_for_ever_is_no_traceback(
    folder: RunFolder, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runfolder, "LOCK_TIMEOUT_S", 0.05)
    other = RunFolder(folder.path)
    with folder._lock, pytest.raises(FarmError, match="cannot be written"):
        other.append(record())


# --- where a run folder may be ---


def test_a_new_and_an_empty_folder_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deep"):
        assert RunFolder.create(tmp_path / name).path.is_dir()


def test_a_start_that_was_killed_before_its_head_was_whole_leaves_a_folder_that_can_be_taken(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.json.4711").write_text('{"schema"')
    RunFolder.create(tmp_path / "run").write_info(INFO)
    assert RunFolder.open(tmp_path / "run").read_info() == INFO


def test_another_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path / "run")
    first.write_info(INFO)
    before = sorted(p.name for p in first.path.iterdir())
    with pytest.raises(
        ConfigError, match=r"--run-dir .*run holds another run: finish it with --resume, or .*nothing was changed"
    ):
        RunFolder.create(tmp_path / "run")
    assert sorted(p.name for p in first.path.iterdir()) == before


def test_other_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(ConfigError, match="photos holds other files"):
        RunFolder.create(tmp_path / "photos")
    with pytest.raises(ConfigError, match=r"cat\.jpg is a file: name a folder"):
        RunFolder.create(tmp_path / "photos" / "cat.jpg")
    with pytest.raises(ConfigError, match=r"cat\.jpg/run cannot be made \(.+\): name another"):
        RunFolder.create(tmp_path / "photos" / "cat.jpg" / "run")


def test_only_a_run_folder_can_be_opened(tmp_path: Path, folder: RunFolder) -> None:
    with pytest.raises(ConfigError, match="is not a run folder"):
        RunFolder.open(tmp_path / "nothing")
    folder.write_info(INFO)
    assert RunFolder.open(folder.path).read_info() == INFO


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b"\xff", b'{"schema": 2}', b"[" * 100_000])
def test_a_damaged_head_is_one_sentence(folder: RunFolder, content: bytes) -> None:
    (folder.path / "run.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.json cannot be read as a run's head") as caught:
        folder.read_info()
    assert "\n" not in str(caught.value)


def test_raw_folders_are_named_by_cell_and_attempt(folder: RunFolder) -> None:
    made = folder.raw_dir("abcdef0123456789", 2)
    assert made.is_dir()
    assert folder.relative(made) == "raw/abcdef012345/2/"


def test_what_a_killed_attempt_left_is_kept_beside_and_in_nobodys_way(folder: RunFolder) -> None:
    for said in ("first", "second"):
        (folder.raw_dir("abcdef0123456789", 1) / "stdout").write_text(said)
    now = folder.raw_dir("abcdef0123456789", 1)
    assert list(now.iterdir()) == []
    kept = {path.parent.name: path.read_text() for path in now.parent.glob("*/stdout")}
    assert kept == {"1-killed-1": "first", "1-killed-2": "second"}


def test_two_who_change_the_head_both_have_their_say(folder: RunFolder) -> None:
    folder.write_info(INFO)
    for phone in ("a", "b"):
        again = Resumption(started="2026-01-02T00:00:00Z", command=(), harness_version="0", phones=(phone,))
        changed = RunFolder(folder.path).update_info(
            lambda info, again=again: info.model_copy(update={"resumptions": (*info.resumptions, again)})  # type: ignore[misc]
        )
    assert folder.read_info() == changed
    assert [again.phones for again in changed.resumptions] == [("a",), ("b",)]


def test_a_head_that_cannot_be_written_is_one_sentence(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_info(INFO)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FarmError, match=r"run\.json cannot be written \(No space left on device\)") as raised:
        folder.update_info(lambda info: info)
    assert raised.value.reason is Reason.HOST_DISK_FULL
    assert [file.name for file in folder.path.iterdir() if file.name.startswith(".run.json")] == []


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    write_atomically(file, b"old")

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="broken"):
            write_atomically(file, b"new and longer")
    assert file.read_bytes() == b"old"
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"


def test_a_folder_that_is_read_once_stays_as_it_was(folder: RunFolder, record: Make) -> None:
    folder.write_info(INFO)
    first, second = record(attempt=1), record(attempt=2)
    folder.append(first)
    once = ReadOnce(folder.path)
    assert (list(once.records()), once.latest(), once.read_info()) == ([first], [first], INFO)
    folder.append(second)
    assert (list(once.records()), once.latest()) == ([first], [first])
    assert folder.latest() == [second]
    assert RunFolder.open(once) is once
