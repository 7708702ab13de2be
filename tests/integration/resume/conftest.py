"""The farm of these tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.provider import Endpoint


@pytest.fixture(scope="session")
def parts(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The parts of these tests."""
    return load_module(Path(__file__).with_name("farm.py"))


@pytest.fixture(scope="module")
def farm(
    parts: ModuleType, virtual_phones: list[Endpoint], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A farm with the module's phones."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env |= {"MNN_FARM_CACHE": str(farm_cache), "ANDROID_ADB_SERVER_PORT": str(virtual_phones[0].adb_port)}
    return parts.Farm({**env, "COLUMNS": "200", "CI": "true"}, tmp_path_factory.mktemp("files"))
