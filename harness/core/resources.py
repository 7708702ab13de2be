"""Where the product's data lies: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_state_path

_PACKAGE = Path(__file__).resolve().parent.parent


def data_root() -> Path:
    """Return the folder that holds ``profiles``, ``device_bins`` and ``tests/device``."""
    inside = _PACKAGE / "_data"
    return inside if inside.is_dir() else _PACKAGE.parent


def cache_dir(*parts: str) -> Path:
    """Return (and make) a folder of ours in the user's cache, e.g. ``cache_dir("models")``.

    ``MNN_FARM_CACHE`` moves the whole cache.
    """
    root = os.environ.get("MNN_FARM_CACHE")
    folder = (Path(root) if root else user_cache_path("mnn-farm")).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def state_dir(*parts: str) -> Path:
    """Return (and make) a folder of ours for what must outlive a run and a cleared cache, e.g. ``state_dir("health")``.

    ``MNN_FARM_STATE`` moves it; a cache that was moved by ``MNN_FARM_CACHE`` takes it along.
    """
    root, cache = os.environ.get("MNN_FARM_STATE"), os.environ.get("MNN_FARM_CACHE")
    base = Path(root) if root else Path(cache) / "state" if cache else user_state_path("mnn-farm")
    folder = base.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def profile_file(kind: str, name_or_file: str) -> Path | None:
    """Return the TOML file of a plan, a golden set, … given by its name in ``profiles/<kind>`` or by its path."""
    named = data_root() / "profiles" / kind / f"{name_or_file}.toml"
    if "/" not in name_or_file and named.is_file():
        return named
    path = Path(name_or_file)
    return path if path.is_file() else None


def profile_names(kind: str) -> list[str]:
    """Return the names of all files of ``profiles/<kind>``."""
    return sorted(path.stem for path in (data_root() / "profiles" / kind).glob("*.toml"))
