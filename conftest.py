"""Fixtures of the self-test. The plugin itself comes by its entry point, so that other repositories can use it too."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.adbprogram import find_adb
from harness.core.errors import HostError
from harness.core.provider import Endpoint, load_provider
from harness.core.resources import cache_dir
from harness.virtual.sandbox import find_sandbox


@pytest.fixture(scope="session")
def load_module() -> Callable[[Path], ModuleType]:
    """Load a module by its path: test modules are no package, and neither is what runs on phones."""

    def load(path: Path) -> ModuleType:
        name = "_".join(path.with_suffix("").parts[-3:])
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None  # noqa: S101
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the self-test does to phones is no history of the user's; what a run with ``--devices`` does is."""
    if request.config.getoption("--devices") is not None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def farm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the test's own (phones, locks, models), but with the programs built and texts computed before."""
    return _new_cache(tmp_path_factory)


def _new_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cache")
    for shared in ("probe", "synthetic", "models", "references"):
        (root / shared).symlink_to(cache_dir(shared))
    return root


@contextmanager
def _virtual_phones(cache: Path, *words: str) -> Iterator[list[Endpoint]]:
    """Phones in a cache of their own; skips only where there is no sandbox or no adb, never for a phone that fails."""
    try:
        find_sandbox()
        find_adb()
    except HostError as error:
        pytest.skip(f"no virtual phone on this computer: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(cache))
        provider = load_provider("virtual")
        try:
            yield provider.start(words)
        finally:
            provider.stop()


@pytest.fixture(scope="module")
def virtual_phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """One virtual phone behind a real adb server, for a whole module, new: a phone keeps its settings over starts."""
    with _virtual_phones(_new_cache(tmp_path_factory), "high") as endpoints:
        yield endpoints[0]


@pytest.fixture(scope="module")
def virtual_phones(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Endpoint]]:
    """The phones that a module of tests names in ``PHONES``, in a cache of their own."""
    with _virtual_phones(_new_cache(tmp_path_factory), *request.module.PHONES) as endpoints:
        yield endpoints
