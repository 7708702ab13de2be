"""Virtual phones behind a real adb server, for faults at exact moments and for a night of faults at random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import HostError
from harness.core.provider import Endpoint, load_provider

LANES = 4


@pytest.fixture(scope="session")
def arena(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The parts of these tests."""
    return load_module(Path(__file__).with_name("arena.py"))


@contextmanager
def _phones(cache: Path, *profiles: str) -> Iterator[list[Endpoint]]:
    """Phones on which a dead link is noticed within seconds.

    The synthetic runner waits and computes nothing: two at once do not measure each other, so they need no turns.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(cache))
        patch.setattr("harness.adb.transport.OPEN_S", 3.0)
        patch.setattr("harness.adb.transport.TRANSFER_STALL_S", 3.0)
        provider = load_provider("virtual")
        try:
            yield [replace(one, contention_group="") for one in provider.start(profiles)]
        except HostError as error:
            pytest.skip(f"no virtual phone on this computer: {error}")
        finally:
            provider.stop()


@pytest.fixture(scope="module")
def four_phones(farm_cache: Path) -> Iterator[list[Endpoint]]:
    """Four phones of different makes."""
    with _phones(farm_cache, "high", "mid", "low", "exynos") as phones:
        yield phones


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, arena: ModuleType, farm_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[tuple[Any, ...]], Any]]:
    """Play the cases of the module's tests, some at a time (they mostly wait); the tests look at what came of each."""
    with _phones(farm_cache, *["high"] * LANES, *["mid"] * LANES) as phones:
        lanes: Queue[Any] = Queue()
        for victim, other in zip(phones[:LANES], phones[LANES:], strict=True):
            lanes.put(arena.Lane(victim, other, tmp_path_factory.mktemp("lane")))

        def play(case: Any) -> Any:
            lane = lanes.get()
            try:
                return lane.play(case)
            finally:
                lane.control.heal()
                lanes.put(lane)

        with ThreadPoolExecutor(LANES) as pool:
            params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
            wanted = [given["case"] for given in params if given.get("case") in request.module.CASES]
            futures = {case: pool.submit(play, arena.Case(*case)) for case in wanted}
            yield lambda case: futures[case].result()
