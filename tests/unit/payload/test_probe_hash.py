from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.payload.probe_files import HashLine, parse_hash_line

LENGTHS = (0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 4096, (1 << 20) - 1, (1 << 20) + 77, 3_000_001)


def hashes(probe: Path, *arguments: str, status: int = 0, cwd: Path | None = None) -> list[HashLine]:
    done = subprocess.run([str(probe), "hash", *arguments], capture_output=True, timeout=20, cwd=cwd)
    assert (done.returncode, done.stderr) == (status, b"")
    return [parse_hash_line(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("code", [(), ("--portable",)], ids=["accelerated", "portable"])
def test_hashes_of_all_lengths_are_those_of_hashlib(probe: Path, tmp_path: Path, code: tuple[str, ...]) -> None:
    noise = random.Random(7)  # noqa: S311  repeatable bytes, no secret
    expected = []
    for length in LENGTHS:
        content = noise.randbytes(length)
        path = tmp_path / str(length)
        path.write_bytes(content)
        expected.append(HashLine(str(path), length, hashlib.sha256(content).hexdigest()))
    assert hashes(probe, *code, "--", *(line.path for line in expected)) == expected


def test_what_cannot_be_hashed_says_why_and_the_rest_is_hashed(probe: Path, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("good")
    os.mkfifo(tmp_path / "pipe")
    lines = hashes(probe, "none", ".", "pipe", "good/below", "link", "good", status=1, cwd=tmp_path)
    assert [line.error for line in lines] == ["ENOENT", "EISDIR", "EINVAL", "ENOTDIR", None, None]
    abc = hashlib.sha256(b"abc").hexdigest()
    assert lines[-2:] == [HashLine("link", 3, abc), HashLine("good", 3, abc)]


def test_a_tree_is_told_in_the_order_of_bytes_with_links_named_and_not_followed(probe: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    tree = tmp_path / "tree"
    names = [b"b", b"a/x", b"a.txt", b"a/y z/deep", "é".encode(), b"A", b"\xff", b".hidden", b"-x"]
    for name in names:
        path = Path(os.fsdecode(os.fsencode(tree) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)
    (tree / "empty folder").mkdir()
    (tree / "a" / "link").symlink_to(outside)
    (tree / "loop").symlink_to(".")
    os.mkfifo(tree / "pipe")
    lines = hashes(probe, "--tree", str(tree))
    paths = [os.fsencode(line.path) for line in lines]
    assert paths == sorted([*names, b"a/link", b"loop"])
    for line in lines:
        name = os.fsencode(line.path)
        if name in (b"a/link", b"loop"):
            assert line == HashLine(line.path, symlink=True)
        else:
            assert line == HashLine(line.path, len(name), hashlib.sha256(name).hexdigest())


def test_a_tree_that_is_not_there_or_is_a_file_is_an_error(probe: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert hashes(probe, "--tree", "none", status=1, cwd=tmp_path) == [HashLine("none", error="ENOENT")]
    assert hashes(probe, "--tree", "file", status=1, cwd=tmp_path) == [HashLine("file", error="ENOTDIR")]


def test_an_empty_tree_has_no_lines(probe: Path, tmp_path: Path) -> None:
    assert hashes(probe, "--tree", str(tmp_path)) == []


def test_a_name_with_every_odd_byte_is_valid_json_and_comes_back(probe: Path, tmp_path: Path) -> None:
    name = bytes(byte for byte in range(1, 256) if byte != 0x2F)[:240]
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"x")
    done = subprocess.run([str(probe), "hash", "--tree", str(tmp_path)], capture_output=True, timeout=10, check=True)
    assert done.stdout.isascii()
    json.loads(done.stdout)
    assert os.fsencode(parse_hash_line(done.stdout).path) == name


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"path":"a"}',
        b'{"path":"a","size":-1,"sha256":"x"}',
        b'{"path":"a","size":1,"sha256":"A"}',
        b"a\xff",
    ],
)
def test_what_is_no_hash_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="probe hash"):
        parse_hash_line(line)


class Stamped:
    """A tree that is hashed with stamps, and which of its files were read the last time."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self.tree, self.stamp, self._probe = folder / "tree", folder / "stamps" / "stamp", probe
        self.tree.mkdir()
        for name in ("a", "b c", "\n"):
            (self.tree / name).write_text(f"content of {name}")

    def read(self, trust_s: int = 3600) -> list[str]:
        argv = [
            str(self._probe),
            "hash",
            "--stamp",
            str(self.stamp),
            "--trust-s",
            str(trust_s),
            "--tree",
            str(self.tree),
        ]
        lines = [json.loads(line) for line in subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()]
        for line in lines:
            content = (self.tree / line["path"]).read_bytes()
            assert (line["size"], line["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        return [line["path"] for line in lines if "stamped" not in line]


@pytest.fixture
def stamped(probe: Path, tmp_path: Path) -> Stamped:
    return Stamped(probe, tmp_path)


def test_a_file_that_nobody_wrote_to_is_not_read_again(stamped: Stamped) -> None:
    assert stamped.read() == ["\n", "a", "b c"]
    assert stamped.read() == []
    (stamped.tree / "a").read_bytes()
    stamped.tree.rename(stamped.tree.with_name("moved"))
    stamped.tree = stamped.tree.with_name("moved")
    assert stamped.read() == []


def in_place(path: Path) -> None:
    """As rot would be, were it done by a program: same size, and the time of change put back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "touch",
    [
        in_place,
        lambda path: path.write_bytes(path.read_bytes()),
        lambda path: path.chmod(0o600),
        lambda path: (path.with_name("new").write_bytes(b"other"), path.with_name("new").replace(path)),
        lambda path: os.truncate(path, 3),
    ],
    ids=["byte", "written", "mode", "replaced", "cut"],
)
def test_a_file_that_was_touched_in_any_way_is_read_again(stamped: Stamped, touch: Callable[[Path], object]) -> None:
    stamped.read()
    touch(stamped.tree / "b c")
    assert stamped.read() == ["b c"]
    assert stamped.read() == []


def test_stamps_count_only_as_long_as_asked_for(stamped: Stamped) -> None:
    stamped.read()
    assert stamped.read(trust_s=0) == ["\n", "a", "b c"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"[0-9a-f-]{36}", b"00000000-0000-4000-8000-000000000000"),
        (rb"probe-stamps 1", b"probe-stamps 2"),
        (rb"(?s).*", b"\xff\0\0x 1 2\0"),
    ],
    ids=["another boot", "another version", "garbage"],
)
def test_stamps_of_another_boot_or_that_make_no_sense_do_not_count(stamped: Stamped, old: bytes, new: bytes) -> None:
    stamped.read()
    stamped.stamp.write_bytes(re.sub(old, new, stamped.stamp.read_bytes(), count=1))
    assert stamped.read() == ["\n", "a", "b c"]
    assert stamped.read() == []


def test_stamps_that_cannot_be_kept_cost_only_time(stamped: Stamped) -> None:
    stamped.stamp.parent.write_bytes(b"no folder")
    assert stamped.read() == stamped.read() == ["\n", "a", "b c"]
