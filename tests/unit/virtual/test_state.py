from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.core.errors import HostError
from harness.virtual import ports
from harness.virtual.state import claim


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path))
    return tmp_path


def test_the_first_free_name_is_taken_and_given_back() -> None:
    one, two, other = claim("high"), claim("high"), claim("high-opencl")
    assert (one.name, two.name, other.name) == ("virtual-high-1", "virtual-high-2", "virtual-high-opencl-1")
    one.release()
    again = claim("high")
    assert again.name == "virtual-high-1"
    assert again.serial == one.serial != two.serial
    for state in (again, two, other):
        state.release()


def test_a_claim_leaves_no_file_and_a_folder_removed_under_it_is_made_again(cache: Path) -> None:
    held = claim("high")
    assert list(held.folder.iterdir()) == []
    held.folder.rmdir()
    again = claim("high")
    assert again.name == "virtual-high-1"
    assert again.folder.is_dir()
    assert claim("high").name == "virtual-high-2"
    again.release()
    held.release()


def test_a_phones_folders_are_made_once_and_kept(cache: Path) -> None:
    state = claim("low")
    state.prepare()
    (state.data / "local/tmp/kept").write_text("kept")
    state.prepare()
    assert (cache / "virtual/virtual-low-1/data/local/tmp/kept").read_text() == "kept"
    assert state.shared_storage.is_dir()
    state.release()


def test_a_cache_that_is_a_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "file"))
    with pytest.raises(HostError, match="set MNN_FARM_CACHE to a folder of yours"):
        claim("high")


def test_ports_that_adb_looks_at_are_not_ours() -> None:
    assert [port for port in (5036, 5037, 5554, 5555, 5585, 5586) if ports.is_reserved(port)] == [5037, 5555, 5585]
    with ports.listen() as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert not ports.is_reserved(port)
        assert not os.get_inheritable(listener.fileno())
