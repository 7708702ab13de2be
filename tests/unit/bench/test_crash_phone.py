"""What a phone is asked for after a failure, and that what it does not give has a reason."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.bench import crash_phone
from harness.bench.crash_phone import MOST_BYTES, SOURCES, PhoneSaid, ask_phone, names_process, sort_out
from harness.core.errors import PhoneLostError

MARK = "mnn-farm-0011223344556677"


def section(name: str, text: str, code: int = 0) -> str:
    return f"{MARK} begin {name}\n{text}\n{MARK} end {code}\n"


WHOLE = (
    section("meminfo", "MemTotal: 8 kB")
    + section("crash", "a crash")
    + section("tombstones", "tombstone_07\ntombstone_06")
    + section("file tombstone_07", "pid: 7, tid: 7, name: x")
    + section("file tombstone_06", f"cat: tombstone_06: Permission denied\n\n{MARK} code 1\n")
    + section("dmesg", f"dmesg: klogctl: Operation not permitted\n\n{MARK} code 1\n")
)


def test_each_source_comes_with_its_text_or_with_the_reason_why_not() -> None:
    said = sort_out(WHOLE.encode(), MARK)
    assert dict(said.texts) == {
        "meminfo": b"MemTotal: 8 kB",
        "crash": b"a crash",
        "tombstone_07": b"pid: 7, tid: 7, name: x",
    }
    assert dict(said.missing) == {
        "tombstone_06": "cat: tombstone_06: Permission denied",
        "dmesg": "dmesg: klogctl: Operation not permitted",
    }


def test_what_had_come_when_the_phone_was_lost_stays() -> None:
    cut = WHOLE[: WHOLE.index(f"{MARK} begin tombstones") + 40].encode()
    said = sort_out(cut, MARK, "toy-1: gone")
    assert set(said.texts) == {"meminfo", "crash"}
    assert dict(said.missing) == {"tombstones": "toy-1: gone", "dmesg": "toy-1: gone"}


def test_a_folder_without_tombstones_and_a_source_that_hung_are_told_apart() -> None:
    told = section("tombstones", "") + section("dmesg", f"\n{MARK} code 124\n") + section("crash", f"\n{MARK} code 3\n")
    assert dict(sort_out(told.encode(), MARK).missing) == {
        "tombstones": "there is none",
        "dmesg": "it took longer than 4 s",
        "crash": "it ended with exit code 3 and said nothing",
        "meminfo": "the phone's shell did not say",
    }


def test_what_a_source_told_before_it_was_ended_or_failed_is_kept_and_the_rest_is_named() -> None:
    told = (
        section("crash", f"line 1\nline 2\n\n{MARK} code 124\n")
        + section("dmesg", f"a\nb\nc\nd\ne\n\n{MARK} code 1\n")
        + section("file tombstone_01", "x" * (256 << 10))
        + section("file tombstone_02", "short")
    )
    said = sort_out(told.encode(), MARK)
    assert said.texts["crash"] == b"line 1\nline 2"
    assert said.texts["dmesg"] == b"a\nb\nc\nd\ne"
    assert dict(said.cut) == {
        "crash": "the rest: it took longer than 4 s",
        "dmesg": "the rest: it ended with exit code 1 and said nothing",
        "tombstone_01": "its end: 256 KiB were asked for",
    }


def test_a_timeout_that_says_127_of_a_program_that_is_there_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "tombstone_03").write_text("pid: 9, tid: 9, name: x\n")
    (tmp_path / "timeout").write_text('#!/bin/sh\nshift; "$@"; [ "$1" = true ] || exit 127\n')
    (tmp_path / "timeout").chmod(0o755)
    (tmp_path / "dmesg").write_text('#!/bin/sh\necho "dmesg: klogctl: Operation not permitted" >&2; exit 1\n')
    (tmp_path / "dmesg").chmod(0o755)
    script = crash_phone._SCRIPT.replace(crash_phone.TOMBSTONES, str(tmp_path))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script, "sh", MARK], capture_output=True, check=False, timeout=30, env=env)
    said = sort_out(done.stdout, MARK)
    assert said.texts["tombstone_03"] == b"pid: 9, tid: 9, name: x"
    assert "crash" in said.missing, "there is no logcat on this computer"
    assert said.missing["dmesg"] == "dmesg: klogctl: Operation not permitted"
    nothing = sort_out(section("tombstones", f"ls: /x: Permission denied\n\n{MARK} code 127\n").encode(), MARK)
    assert nothing.missing["tombstones"] == "ls: /x: Permission denied"


@settings(max_examples=80, deadline=None)
@given(st.binary() | st.lists(st.sampled_from([WHOLE[:60], MARK, " begin ", " end ", " code 1", "\n", "dmesg"])).map(
    lambda parts: "".join(parts).encode()
))  # fmt: skip
def test_no_answer_of_a_phone_breaks_it(out: bytes) -> None:
    said = sort_out(out, MARK)
    assert set(SOURCES) - {"tombstones"} <= {*said.texts, *said.missing}


class Phone:
    name = "toy-1"

    def __init__(self, *chunks: bytes | Exception) -> None:
        self._chunks = chunks

    @contextmanager
    def stream(self, *_: object, **__: object) -> Iterator[Any]:
        yield self._all()

    def _all(self) -> Iterator[tuple[int, bytes]]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield 1, chunk


def test_a_phone_that_is_lost_while_it_tells_costs_only_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_phone.secrets, "token_hex", lambda _: MARK.removeprefix("mnn-farm-"))
    begun = section("meminfo", "MemTotal: 8 kB").encode()
    said = ask_phone(cast("Any", Phone(begun, PhoneLostError("toy-1", "the cable was pulled"))))
    why = "toy-1: the cable was pulled"
    assert said == PhoneSaid({"meminfo": b"MemTotal: 8 kB"}, {"crash": why, "tombstones": why, "dmesg": why})


def test_a_phone_that_does_not_stop_telling_is_stopped() -> None:
    said = ask_phone(cast("Any", Phone(*[b"x" * 100_000] * 1000)))
    assert said.missing["crash"] == f"the phone told more than {MOST_BYTES} bytes"


def test_the_script_runs_in_a_shell_and_reads_tombstones_of_plain_names_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tombstones"
    folder.mkdir()
    for name, text in {"tombstone_01": "pid: 9, tid: 9, name: x", "tombstone_01.pb": "no", "$(touch x)": "no"}.items():
        (folder / name).write_text(text)
    script = crash_phone._SCRIPT.replace(crash_phone.TOMBSTONES, str(folder))
    done = subprocess.run(["sh", "-c", script, "sh", MARK], capture_output=True, check=False, cwd=tmp_path, timeout=30)
    said = sort_out(done.stdout, MARK)
    assert said.texts["tombstone_01"] == b"pid: 9, tid: 9, name: x"
    assert [name for name in said.texts if name.startswith("tombstone")] == ["tombstone_01"]
    assert "crash" in said.missing, "there is no logcat on this computer"
    assert not (tmp_path / "x").exists()


def test_a_tombstone_is_ours_by_its_process() -> None:
    assert names_process(b"x\npid: 71, tid: 72, name: a  >>> b <<<\n", {7, 71})
    assert not names_process(b"pid: 71, tid: 72, name: a\n", {7, 72})
