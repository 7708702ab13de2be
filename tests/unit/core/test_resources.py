from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.resources import cache_dir, data_root, state_dir


def test_the_data_root_holds_what_belongs_to_the_product() -> None:
    assert (data_root() / "profiles" / "tiers.toml").is_file()
    assert (data_root() / "device_bins" / "runner" / "bundle.toml").is_file()


def test_the_cache_can_be_moved_and_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "here"))
    folder = cache_dir("models", "x")
    assert folder == tmp_path / "here" / "models" / "x"
    assert folder.is_dir()
    assert cache_dir("models", "x") == folder


def test_an_empty_variable_moves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "mnn-farm"


def test_state_lies_where_it_is_told_else_beside_a_moved_cache_else_with_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("MNN_FARM_CACHE", raising=False)
    monkeypatch.delenv("MNN_FARM_STATE", raising=False)
    assert state_dir("health") == tmp_path / "xdg" / "mnn-farm" / "health"
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    assert state_dir("health") == tmp_path / "cache" / "state" / "health"
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "state"))
    assert state_dir("health") == tmp_path / "state" / "health"
    assert state_dir().is_dir()
