"""Parts of the tests of the ladder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def arena(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """Programs, bundles and models with faults, and a diagnosis of a phone that is up."""
    return load_module(Path(__file__).with_name("arena.py"))
