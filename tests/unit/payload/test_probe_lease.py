"""One phone, one user at a time: a lock on the phone that ends by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harness.payload.probe_events import parse_event
from harness.payload.probe_lease import LeaseAnswer, parse_lease_line

WHO = ("--owner", "ann", "--host", "lab-1", "--purpose", "nightly")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "lease"


def take(background: Any, file: Path, *who: str, ttl_s: int = 60) -> LeaseAnswer:
    done = background.ask("lease", str(file), *(who or WHO), "--ttl", str(ttl_s))
    answer = parse_lease_line(done.stdout)
    assert done.returncode == (0 if answer.state == "taken" else 1)
    assert done.stderr == b""
    if answer.state == "taken":
        assert answer.holder is not None
        background.remember(answer.holder.pid)
    return answer


def show(background: Any, file: Path) -> LeaseAnswer:
    return parse_lease_line(background.ask("lease-show", str(file)).stdout)


def test_a_lease_is_taken_with_all_that_was_said(background: Any, file: Path) -> None:
    answer = take(background, file, "--owner", 'Ann "É"', "--host", "lab\n1", "--purpose", "", ttl_s=30)
    assert answer.state == "taken"
    holder = answer.holder
    assert holder is not None
    assert (holder.owner, holder.host, holder.purpose, holder.ttl_ms) == ('Ann "É"', "lab\n1", "", 30_000)
    assert holder.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert 25_000 < holder.remaining_ms <= 30_000
    assert show(background, file).state == "held"
    told = background.process(holder.pid)
    assert told["session"] == str(holder.pid)
    assert Path(f"/proc/{holder.pid}/fd/1").readlink() == Path("/dev/null")


def test_a_second_one_is_refused_and_told_who_has_it(background: Any, file: Path) -> None:
    first = take(background, file)
    second = take(background, file, "--owner", "bob", "--host", "lab-2", "--purpose", "play")
    assert second.state == "held"
    assert second.holder is not None
    assert first.holder is not None
    assert (second.holder.owner, second.holder.host, second.holder.id) == ("ann", "lab-1", first.holder.id)


def test_a_phone_that_nobody_has_is_free(background: Any, file: Path) -> None:
    assert show(background, file) == LeaseAnswer("free", None)
    file.parent.mkdir()
    file.write_text("this is no lease\n")
    assert show(background, file) == LeaseAnswer("free", None)
    assert take(background, file).state == "taken"


def test_a_lease_ends_at_its_expiry(background: Any, file: Path) -> None:
    holder = take(background, file, ttl_s=1).holder
    assert holder is not None
    background.wait_until(lambda: background.process(holder.pid) == {}, "the end of the lease", 5)
    assert show(background, file).state == "free"
    assert take(background, file, "--owner", "bob", "--host", "h", "--purpose", "p").state == "taken"


def test_a_holder_that_is_killed_frees_the_phone_at_once(background: Any, file: Path) -> None:
    holder = take(background, file).holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    background.wait_until(lambda: show(background, file).state == "free", "the end of the lease")


def test_it_survives_a_hangup(background: Any, file: Path) -> None:
    holder = take(background, file).holder
    assert holder is not None
    os.kill(holder.pid, signal.SIGHUP)
    time.sleep(0.1)  # nothing happens, and that takes no event to wait for
    assert show(background, file).state == "held"


def test_it_is_given_back_by_its_id_only(background: Any, file: Path) -> None:
    holder = take(background, file).holder
    assert holder is not None
    done = background.ask("lease-end", str(file), "--id", "0" * 16)
    assert (done.returncode, parse_lease_line(done.stdout).state) == (1, "held")
    done = background.ask("lease-end", str(file), "--id", holder.id)
    assert (done.returncode, parse_lease_line(done.stdout).state) == (0, "free")
    assert background.process(holder.pid) == {}
    assert parse_lease_line(background.ask("lease-end", str(file), "--id", holder.id).stdout).state == "free"


def test_whoever_takes_a_phone_learns_who_lost_it_before(background: Any, file: Path) -> None:
    first = take(background, file).holder
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    background.wait_until(lambda: show(background, file).state == "free", "the end of the lease")
    lost = show(background, file).previous
    assert lost is not None
    assert (lost.id, lost.owner) == (first.id, "ann")
    answer = take(background, file, "--owner", "bob", "--host", "h", "--purpose", "p")
    assert answer.previous is not None
    assert (answer.previous.id, answer.previous.owner, answer.previous.remaining_ms) == (first.id, "ann", 0)


def test_a_phone_that_was_given_back_has_no_one_who_lost_it(background: Any, file: Path) -> None:
    first = take(background, file).holder
    assert first is not None
    background.ask("lease-end", str(file), "--id", first.id)
    assert show(background, file) == LeaseAnswer("free", None)
    assert take(background, file).previous is None


def test_a_lease_is_extended_by_its_id_only(background: Any, file: Path) -> None:
    holder = take(background, file, ttl_s=2).holder
    assert holder is not None
    time.sleep(0.5)
    left = show(background, file).holder
    assert left is not None
    done = background.ask("lease-extend", str(file), "--id", holder.id)
    answer = parse_lease_line(done.stdout)
    assert (done.returncode, answer.state) == (0, "taken")
    assert answer.holder is not None
    assert left.remaining_ms < answer.holder.remaining_ms <= 2000
    done = background.ask("lease-extend", str(file), "--id", "f" * 16)
    assert (done.returncode, parse_lease_line(done.stdout).state) == (1, "held")
    background.ask("lease-end", str(file), "--id", holder.id)
    done = background.ask("lease-extend", str(file), "--id", holder.id)
    assert (done.returncode, parse_lease_line(done.stdout)) == (1, LeaseAnswer("free", None))


def test_an_attached_lease_ends_with_its_stdin(background: Any, file: Path) -> None:
    argv = [str(background.probe), "lease", str(file), *WHO, "--ttl", "60", "--attached"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answer = parse_lease_line(process.stdout.readline())
        assert answer.holder is not None
        assert answer.holder.pid == process.pid
        process.stdin.write(b"words do not end it\n")
        process.stdin.flush()
        assert show(background, file).state == "held"
        process.stdin.close()
        assert process.wait(10) == 0
    assert show(background, file).state == "free"


def test_of_many_that_ask_at_once_one_gets_it(background: Any, file: Path) -> None:
    argv = [str(background.probe), "lease", str(file), *WHO, "--ttl", "60"]
    asking = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(8)]
    answers = [parse_lease_line(process.communicate(timeout=20)[0]) for process in asking]
    for answer in answers:
        if answer.state == "taken" and answer.holder is not None:
            background.remember(answer.holder.pid)
    assert sorted(answer.state for answer in answers) == ["held"] * 7 + ["taken"]


def test_those_who_only_look_keep_nobody_from_taking_it(background: Any, file: Path) -> None:
    take(background, file, ttl_s=1)
    script = 'while :; do "$0" lease-show "$1" > /dev/null; done'
    with subprocess.Popen(["sh", "-c", script, str(background.probe), str(file)]) as looker:
        background.wait_until(lambda: show(background, file).state == "free", "the end of the first lease")
        assert take(background, file).state == "taken"
        looker.kill()


def test_a_run_extends_the_lease_under_which_it_runs(background: Any, file: Path) -> None:
    holder = take(background, file, ttl_s=1).holder
    assert holder is not None
    options = ("--lease", str(file), "--lease-id", holder.id)
    folder = background.start("sleep", "60", options=options)
    time.sleep(1.6)  # longer than the lease by itself
    still = show(background, file)
    assert still.holder is not None
    assert still.holder.id == holder.id
    assert 0 < still.holder.remaining_ms <= 1000
    background.ask("stop", str(folder))
    background.wait_until(lambda: show(background, file).state == "free", "the end of the lease", 5)


def test_a_run_whose_lease_is_lost_ends(background: Any, file: Path) -> None:
    holder = take(background, file, ttl_s=1).holder
    assert holder is not None
    folder = background.start("sleep", "60", options=("--lease", str(file)))
    os.kill(holder.pid, signal.SIGKILL)
    background.wait_until(lambda: background.log(folder).end is not None, "the end of the run")
    assert background.log(folder).end.why == "lease_lost"


@pytest.mark.parametrize("other", ["0123456789abcdef", "short"])
def test_under_somebody_elses_lease_nothing_is_run(background: Any, file: Path, other: str) -> None:
    take(background, file)
    argv = ["run", "--dir", str(background.folder / "run"), "--lease", str(file), "--lease-id", other]
    done = background.ask(*argv, "--", "touch", str(background.folder / "ran"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is somebody else's" in done.stderr
    assert not (background.folder / "ran").exists()


def test_without_a_lease_nothing_is_run_under_one(background: Any, file: Path) -> None:
    argv = ["run", "--dir", str(background.folder / "run"), "--lease", str(file), "--", "true"]
    assert b"there is no lease in" in background.ask(*argv).stderr
    holder = take(background, file).holder
    assert holder is not None
    background.ask("lease-end", str(file), "--id", holder.id)
    assert b"is not held by anybody" in background.ask(*argv).stderr


def test_a_lease_of_another_boot_counts_for_nothing(background: Any, file: Path) -> None:
    holder = take(background, file).holder
    assert holder is not None
    assert holder.boot_id is not None
    text = file.read_text()
    with file.open("r+") as record:  # in place: the holder's lock is on this file
        record.write(text.replace(holder.boot_id, holder.boot_id[::-1]))
    assert show(background, file).state == "free"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "lease needs FILE"),
        (("f", *WHO), "lease needs FILE"),
        (("f", *WHO, "--ttl", "0"), "--ttl takes whole seconds"),
        (("f", *WHO, "--ttl", "1.5"), "--ttl takes whole seconds"),
        (("f", "g"), "lease takes one FILE; got g"),
        (("f", "--colour", "red"), "got --colour"),
        (("f", "--owner", "x" * 500, "--host", "h", "--purpose", "p", "--ttl", "1"), "too long"),
    ],
)
def test_a_lease_that_is_asked_for_wrongly_is_one_sentence(background: Any, words: tuple[str, ...], said: str) -> None:
    done = background.ask("lease", *words, cwd=background.folder)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert said in done.stderr.decode()
    assert list(background.folder.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b'{"lease":"mine"}', b'{"lease":"held","holder":3,"remaining_ms":1}', b'{"lease":"held","holder":{}}'],
)
def test_what_is_no_answer_about_a_lease_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"lease|holder"):
        parse_lease_line(line)


def test_the_start_event_of_a_run_under_a_lease_is_an_ordinary_one(background: Any, file: Path) -> None:
    take(background, file)
    argv = ["run", "--dir", str(background.folder / "run"), "--lease", str(file), "--", "true"]
    first, *_, last = background.ask(*argv).stdout.splitlines()
    assert json.loads(first)["ev"] == "start"
    assert parse_event(last).why == "exit"  # type: ignore[union-attr]
