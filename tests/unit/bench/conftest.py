from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of evidence."""
    return load_module(Path(__file__).with_name("factory.py"))


@pytest.fixture(scope="session")
def runs(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """Made-up runs."""
    return load_module(Path(__file__).with_name("series.py"))
