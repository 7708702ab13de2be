from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The factory of evidence: test modules are no package, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("bench_factory", Path(__file__).with_name("factory.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
