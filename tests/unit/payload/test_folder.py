from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.payload.folder import read_folder
from harness.payload.hashes import sha256_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "payload"
    (root / "sub").mkdir(parents=True)
    (root / "run").write_bytes(b"program")
    (root / "sub" / "data.bin").write_bytes(b"\0" * 100)
    (root / "empty").write_bytes(b"")
    return root


def test_every_file_is_there_by_its_path_below_the_folder(folder: Path) -> None:
    payload = read_folder(folder, executable=lambda name: name == "run")
    assert [(f.path, f.size, f.executable) for f in payload.files] == [
        ("empty", 0, False),
        ("run", 7, True),
        ("sub/data.bin", 100, False),
    ]
    assert payload.size == 107
    # sha256sum of nothing
    assert payload.files[0].sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert len(payload.hash) == 64


def test_the_hash_follows_content_name_and_program_bit_and_not_the_time(folder: Path) -> None:
    first = read_folder(folder).hash
    os.utime(folder / "run", (1, 1))
    (folder / "run").chmod(0o700)
    assert read_folder(folder).hash == first
    seen = {first, read_folder(folder, executable=lambda name: name == "run").hash}
    (folder / "run").write_bytes(b"Program")
    seen.add(read_folder(folder).hash)
    (folder / "run").write_bytes(b"program")
    (folder / "run").rename(folder / "runs")
    seen.add(read_folder(folder).hash)
    (folder / "runs").rename(folder / "run")
    (folder / "empty").unlink()
    seen.add(read_folder(folder).hash)
    assert len(seen) == 5
    (folder / "empty").touch()
    assert read_folder(folder).hash == first


def test_the_hash_does_not_depend_on_where_the_folder_lies(folder: Path, tmp_path: Path) -> None:
    first = read_folder(folder).hash
    folder.rename(tmp_path / "elsewhere")
    assert read_folder(tmp_path / "elsewhere").hash == first


def test_only_the_chosen_files_are_taken(folder: Path) -> None:
    payload = read_folder(folder, only=["sub/data.bin", "run"])
    assert [f.path for f in payload.files] == ["run", "sub/data.bin"]


@pytest.mark.parametrize(
    ("only", "says"),
    [
        (["../secret"], "leads out of"),
        (["/etc/hostname"], "leads out of"),
        (["link"], "leads out of"),
        (["nothing"], r"cannot be read \(No such file or directory\): check the file"),
        (["sub"], r"cannot be read \(Is a directory\)"),
        ([], "is empty"),
    ],
)
def test_a_file_that_cannot_be_taken_is_told(folder: Path, only: list[str], says: str) -> None:
    (folder.parent / "secret").write_text("x")
    (folder / "link").symlink_to(folder.parent / "secret")
    with pytest.raises(ConfigError, match=says):
        read_folder(folder, only=only)


def test_a_link_that_leads_out_is_refused_and_one_inside_is_a_file(folder: Path) -> None:
    (folder / "inside").symlink_to("run")
    assert [f.size for f in read_folder(folder).files if f.path == "inside"] == [7]
    (folder / "outside").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="outside leads out of"):
        read_folder(folder)


def test_what_is_no_folder_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="empty is empty"):
        read_folder(tmp_path / "empty")
    with pytest.raises(ConfigError, match="nothing is not a folder: check the path"):
        read_folder(tmp_path / "nothing")


def test_a_name_of_odd_bytes_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "odd"
    root.mkdir()
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe ")).write_bytes(b"x")
    (file,) = read_folder(root).files
    assert os.fsencode(file.path) == b"\xff\xfe "
    assert len(read_folder(root).hash) == 64


def test_a_file_larger_than_one_read_is_hashed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.payload.hashes._READ_BYTES", 3)
    (tmp_path / "x").write_bytes(b"abc" * 3 + b"d")
    whole = sha256_of(tmp_path / "x")
    monkeypatch.setattr("harness.payload.hashes._READ_BYTES", 1000)
    assert sha256_of(tmp_path / "x") == whole
