"""``probe receive``, the real one: told what to do line by line, as a push does it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.payload.probe_files import HashLine
from harness.payload.probe_receive import (
    Alive,
    Answer,
    Ended,
    Ready,
    Taken,
    order_done,
    order_drop,
    order_end,
    order_file,
    order_grow,
    order_piece,
    order_zeros,
    parse_answer,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Receiver:
    """One run of the verb. ``found`` is what it told before it was ready."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self.folder = folder
        argv = [str(probe), "receive", "--stamp", str(folder.parent / "stamps" / "stamp"), str(folder)]
        self._child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.found: list[HashLine] = []
        while not isinstance(answer := self.hear(), Ready):
            assert isinstance(answer, HashLine)
            self.found.append(answer)
        assert answer.free_bytes is not None
        assert answer.free_bytes > 0

    def hear(self) -> Answer:
        assert self._child.stdout is not None
        line = bytearray()
        while not line.endswith(b"\n"):
            got = self._child.stdout.read(1)
            assert got, self.ended()
            line += got
        return parse_answer(bytes(line[:-1]))

    def say(self, *orders: bytes) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(b"".join(orders))

    def put(self, name: int, data: bytes) -> bytes:
        """Let a piece arrive and return the order to take it."""
        (self.folder / "pieces").mkdir(exist_ok=True)
        (self.folder / "pieces" / str(name)).write_bytes(data)
        return order_piece(str(name), len(data))

    def ended(self) -> tuple[int, str]:
        """Hang up; return exit status and stderr."""
        _, errors = self._child.communicate(timeout=10)
        return self._child.returncode, errors.decode()

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()


@pytest.fixture
def receive(probe: Path, tmp_path: Path) -> Iterator[Callable[[], Receiver]]:
    made: list[Receiver] = []

    def begin() -> Receiver:
        made.append(Receiver(probe, tmp_path / "incoming"))
        return made[-1]

    yield begin
    for one in made:
        one.kill()


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    return tmp_path / "incoming" / "payload"


def test_files_of_pieces_and_zeros_are_put_together_and_hashed(receive: Callable[[], Receiver], payload: Path) -> None:
    data = os.urandom(700_001)
    whole = data[:300_000] + bytes(1_000_000) + data[300_000:]
    here = receive()
    pieces = [here.put(1, data[:300_000]), here.put(2, data[300_000:]), here.put(3, b"#!")]
    here.say(
        order_file("deep/er/w.bin", 0, executable=False), pieces[0], order_zeros(1_000_000), pieces[1], order_done()
    )
    here.say(order_file("run", 0, executable=True), pieces[2], order_done())
    here.say(order_file("empty", 0, executable=False), order_done(), order_end())
    assert [here.hear() for _ in range(7)] == [
        Taken("1"),
        Taken("2"),
        HashLine("deep/er/w.bin", len(whole), sha256(whole)),
        Taken("3"),
        HashLine("run", 2, sha256(b"#!")),
        HashLine("empty", 0, sha256(b"")),
        Ended(),
    ]
    assert here.ended() == (0, "")
    assert (payload / "deep/er/w.bin").read_bytes() == whole
    assert [oct((payload / name).stat().st_mode & 0o777) for name in ("run", "empty")] == ["0o755", "0o644"]
    assert sorted(path.name for path in payload.parent.iterdir()) == ["payload"]


def test_zeros_take_no_room(receive: Callable[[], Receiver], payload: Path) -> None:
    size = 9_000_005
    here = receive()
    here.say(order_file("w", 0, executable=False), order_zeros(size - 5), here.put(1, b"there"), order_zeros(0))
    here.say(order_done())
    assert here.hear() == Taken("1")
    assert here.hear() == HashLine("w", size, sha256(bytes(size - 5) + b"there"))
    assert (payload / "w").stat().st_blocks * 512 < 1 << 20


def test_a_large_piece_becomes_the_file_while_it_arrives(receive: Callable[[], Receiver], payload: Path) -> None:
    data = os.urandom(1_000_000)
    here = receive()
    here.say(order_file("w", 0, executable=False), order_grow("1", len(data)), order_done(), order_end())
    (payload.parent / "pieces").mkdir()
    with (payload.parent / "pieces" / "1").open("wb", buffering=0) as piece:
        piece.write(data[:400_000])
        until(lambda: (payload / "w").exists())
        piece.write(data[400_000:])
    assert here.hear() == HashLine("w", len(data), sha256(data))
    assert here.hear() == Ended()
    assert (payload / "w").read_bytes() == data


@pytest.mark.parametrize("in_hand", ["grow", "piece"])
def test_what_had_arrived_when_it_broke_off_is_told_and_gone_on_with(
    receive: Callable[[], Receiver], payload: Path, in_hand: str
) -> None:
    data = os.urandom(900_000)
    first = receive()
    first.say(order_file("w", 0, executable=False))
    if in_hand == "piece":
        first.say(first.put(1, data[:500_000]))
        assert first.hear() == Taken("1")
    else:
        first.say(order_grow("1", len(data)))
        first.put(1, data[:500_000])
        until(lambda: (payload / "w").exists())
    first.put(2, b"left behind")
    assert first.ended() == (1, "probe: the push broke off\n")
    second = receive()
    assert second.found == [HashLine("w", 500_000, sha256(data[:500_000]))]
    assert list((payload.parent / "pieces").glob("*")) == []
    second.say(order_file("w", 500_000, executable=True), second.put(1, data[500_000:]), order_done(), order_end())
    assert [second.hear() for _ in range(3)] == [Taken("1"), HashLine("w", 900_000, sha256(data)), Ended()]
    assert (payload / "w").read_bytes() == data


def test_a_whole_file_of_earlier_needs_nothing_and_one_begun_anew_forgets_what_was(
    receive: Callable[[], Receiver], payload: Path
) -> None:
    payload.mkdir(parents=True)
    (payload / "whole").write_bytes(b"whole")
    (payload / "wrong").write_bytes(b"something longer")
    (payload / "stray").write_bytes(b"")
    here = receive()
    assert [line.path for line in here.found] == ["stray", "whole", "wrong"]
    here.say(order_drop("stray"), order_file("whole", 5, executable=True), order_done())
    here.say(order_file("wrong", 0, executable=False), here.put(1, b"right"), order_done(), order_end())
    assert [here.hear() for _ in range(4)] == [
        HashLine("whole", 5, sha256(b"whole")),
        Taken("1"),
        HashLine("wrong", 5, sha256(b"right")),
        Ended(),
    ]
    assert {path.name: path.read_bytes() for path in payload.iterdir()} == {"whole": b"whole", "wrong": b"right"}


def test_a_second_push_waits_for_the_end_of_the_first(
    receive: Callable[[], Receiver], probe: Path, tmp_path: Path
) -> None:
    first = receive()
    argv = [str(probe), "receive", "--stamp", str(tmp_path / "stamp"), str(tmp_path / "incoming")]
    second = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert second.stdout is not None
        assert parse_answer(second.stdout.readline()) == Alive()
        first.ended()
        while isinstance(answer := parse_answer(second.stdout.readline()), Alive):
            continue
        assert isinstance(answer, Ready)
    finally:
        second.kill()
        second.communicate()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "", "a//b", ".", "a/."])
@pytest.mark.parametrize("order", ["file 644 0 ", "drop "])
def test_no_path_leads_out_of_the_folder(receive: Callable[[], Receiver], order: str, path: str) -> None:
    here = receive()
    here.say(f"{order}{path}\0".encode())
    status, said = here.ended()
    assert (status, "is no path below a folder" in said) == (2, True)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(
    receive: Callable[[], Receiver], payload: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    payload.mkdir(parents=True)
    (payload / "w").symlink_to(tmp_path / "outside")
    here = receive()
    assert here.found == [HashLine("w", symlink=True)]
    here.say(order_file("w", 0, executable=False), here.put(1, b"new"), order_done(), order_end())
    assert [here.hear() for _ in range(3)][-1] == Ended()
    assert ((tmp_path / "outside").read_bytes(), (payload / "w").read_bytes()) == (b"mine", b"new")


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        (b"dance\0", "orders are file,"),
        (b"piece 1 5\0", "piece before file"),
        (b"zeros 5\0", "zeros before file"),
        (b"done\0", "done before file"),
        (b"file 644 0 a\0file 644 0 b\0", "file before done"),
        (b"file 644 0 a\0piece ../x 1\0", "piece wants NAME LENGTH"),
        (b"file 644 0 a\0zeros -1\0", "zeros wants a COUNT"),
        (b"file 644 9 a\0", "a is not there with 9 bytes"),
        (b"file 644 0 a\0zeros 1\0grow 1 1\0", "grow comes after file"),
        (b"x" * 9000, "an order is longer than 8192 bytes"),
        (b"file 644 0 a\0piece 7 3\0", "(ENOENT)"),
    ],
)
def test_orders_that_make_no_sense_are_refused_in_a_sentence(
    receive: Callable[[], Receiver], orders: bytes, says: str
) -> None:
    here = receive()
    here.say(orders)
    status, said = here.ended()
    assert status in (1, 2)
    assert says in said


def test_a_piece_that_is_not_as_long_as_it_should_be_is_refused(receive: Callable[[], Receiver]) -> None:
    here = receive()
    here.put(1, b"short")
    here.say(order_file("w", 0, executable=False), order_piece("1", 9))
    assert here.ended() == (1, "probe: a piece of w has 5 bytes instead of 9\n")


def test_a_folder_that_cannot_be_made_is_told_with_its_error(probe: Path, tmp_path: Path) -> None:
    argv = [str(probe), "receive", "--stamp", str(tmp_path / "stamp"), "/dev/full/x"]
    done = subprocess.run(argv, input=b"", capture_output=True, timeout=10)
    assert (done.returncode, b"cannot make the folder /dev/full/x/payload (ENOTDIR)" in done.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [[], ["a"], ["--stamp", "s"], ["--stamp", "s", "a", "b"], ["--what", "a"]])
def test_wrong_usage_is_told(probe: Path, arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run([str(probe), "receive", *arguments], capture_output=True, timeout=10, cwd=tmp_path)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, b"", [])


def test_what_was_received_needs_no_hashing_afterwards(
    receive: Callable[[], Receiver], probe: Path, payload: Path, tmp_path: Path
) -> None:
    here = receive()
    here.say(order_file("a b", 0, executable=False), here.put(1, b"content"), order_done(), order_end())
    assert [here.hear() for _ in range(3)][-1] == Ended()
    final = payload.rename(tmp_path / "final")
    argv = [str(probe), "hash", "--stamp", str(tmp_path / "stamps" / "stamp"), "--trust-s", "60", "--tree", str(final)]
    told = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=10).stdout)
    assert told == {"path": "a b", "size": 7, "sha256": sha256(b"content"), "stamped": True}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "a line of probe receive"),
        (b"{}", "nothing that is known"),
        (b'{"ready":true,"free_bytes":-1}', "-1 free bytes"),
        (b'{"ready":true}', "free_bytes"),
        (b'{"taken":1}', "taken"),
        (b'{"path":"a","size":1,"sha256":"x"}', "no size and SHA-256"),
    ],
)
def test_what_is_no_answer_is_refused(line: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_answer(line)


def test_an_unknown_free_space_is_unknown() -> None:
    assert parse_answer(b'{"ready":true,"free_bytes":null}') == Ready(None)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
