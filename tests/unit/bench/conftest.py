from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of evidence."""
    return load_module(Path(__file__).with_name("factory.py"))
