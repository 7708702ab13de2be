"""Parts that the tests of the ladder share: records and facts as those of reports and of the bench have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

UNIT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def records(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of records."""
    return load_module(UNIT / "report" / "factory.py")


@pytest.fixture(scope="session")
def bench(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of facts."""
    return load_module(UNIT / "bench" / "factory.py")
