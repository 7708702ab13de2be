"""Fixtures of the self-test. The plugin itself comes by its entry point, so that other repositories can use it too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.errors import HostError
from harness.core.provider import Endpoint, load_provider
from harness.core.resources import cache_dir


@pytest.fixture(scope="session")
def farm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the test's own (phones, locks, models), but with the programs built before: they take long."""
    root = tmp_path_factory.mktemp("cache")
    for shared in ("probe", "synthetic", "models"):
        (root / shared).symlink_to(cache_dir(shared))
    return root


@pytest.fixture(scope="module")
def virtual_phone(farm_cache: Path) -> Iterator[Endpoint]:
    """One virtual phone behind a real adb server, for a whole module."""
    before = os.environ.get("MNN_FARM_CACHE")
    os.environ["MNN_FARM_CACHE"] = str(farm_cache)
    provider = load_provider("virtual")
    try:
        yield provider.start(["high"])[0]
    except HostError as error:
        pytest.skip(f"no virtual phone on this computer: {error}")
    finally:
        provider.stop()
        if before is None:
            del os.environ["MNN_FARM_CACHE"]
        else:
            os.environ["MNN_FARM_CACHE"] = before
