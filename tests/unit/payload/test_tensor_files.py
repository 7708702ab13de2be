"""Arrays in ``.npz`` files, ours and whatever else has that name."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import ConfigError
from harness.payload.tensor_files import read_tensors, write_tensors


def test_what_is_written_is_read_again_by_us_and_by_numpy(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    made = {"scope/y:0": np.arange(6, dtype=np.int32).reshape(2, 3), "file": np.float32(1.5), "none": np.zeros((0, 4))}
    write_tensors(path, made)
    for read in (read_tensors(path), dict(np.load(path))):
        assert read.keys() == made.keys()
        assert all(np.array_equal(read[name], made[name]) for name in made)
        assert {array.dtype for array in read.values()} == {np.dtype("i4"), np.dtype("f4"), np.dtype("f8")}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: object) -> None:
    path = tmp_path / "x.npz"
    assert callable(save)
    save(path, y=np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))
    assert read_tensors(path)["y"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_cut_file_is_no_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write_tensors(path, {"y": np.zeros(1000)})
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(ConfigError, match=r"is not a whole \.npz file"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\x93NUMPY\x01\x00", b"PK\x03\x04 and then text"])
def test_other_bytes_are_no_npz_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.npz is not a whole \.npz file"):
        read_tensors(path)


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"text",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4', ",
        b"\x93NUMPY\x01\x00\x08\x00not so\n\n",
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999,)}\n",
    ],
)
def test_an_entry_that_is_no_array_is_said_with_its_file(tmp_path: Path, entry: bytes) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", entry)
    with pytest.raises(ConfigError, match=r"is not a whole \.npz file"):
        read_tensors(path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, y=np.array([object()], dtype=object))
    with pytest.raises(ConfigError, match="Object arrays cannot be loaded"):
        read_tensors(path)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.array(["2026-01-01"], "M8[D]")])
def test_only_real_numbers_are_taken(tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, y=array)
    with pytest.raises(ConfigError, match=r"y in .* holds .* and no real numbers"):
        read_tensors(path)


def test_no_array_no_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.npz", {})
    with pytest.raises(ConfigError, match="holds no array"):
        read_tensors(tmp_path / "x.npz")
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\): check the path"):
        read_tensors(tmp_path / "nowhere.npz")
