"""The bench of these tests: test modules are no package, so it is loaded by its path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.provider import Endpoint


@pytest.fixture(scope="session")
def bench_module() -> ModuleType:
    """The module ``bench``."""
    spec = importlib.util.spec_from_file_location("lab_bench", Path(__file__).with_name("bench.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lab_bench"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench(
    bench_module: ModuleType, virtual_phones: list[Endpoint], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A bench with the module's phones."""
    return bench_module.Bench(virtual_phones, farm_cache, tmp_path_factory.mktemp("bench"))
