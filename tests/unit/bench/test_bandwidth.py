from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import pytest

from harness.bench.bandwidth import MEASURE_S, Bandwidth, measure_bandwidth, threads_to_try
from harness.core.errors import ProbeError
from harness.phone.cpu import Cluster

CLUSTERS = (
    Cluster((0, 1, 2, 3), "Cortex-A55", "0x41", "0xd05", 1_800_000),
    Cluster((4, 5, 6), "Cortex-A78", "0x41", "0xd41", 2_400_000),
    Cluster((7,), "Cortex-X1", "0x41", "0xd44", 2_800_000),
)


class Probe:
    """Tells 10 GB/s a thread; refuses to keep threads on certain cores if ``moves``."""

    def __init__(self, *, moves: bool = False, fails: bool = False) -> None:
        self.moves, self.fails = moves, fails
        self.asked: list[tuple[tuple[int, ...], str | None, float, int]] = []

    def bandwidth(self, threads: Sequence[int], *, seconds: float, megabytes: int, cpus: str | None) -> Any:
        self.asked.append((tuple(threads), cpus, seconds, megabytes))
        if self.fails or (self.moves and cpus is not None):
            raise ProbeError("toy-1", "a thread could not be kept on core 4 (EINVAL)")
        return {n: 10.0 * n for n in threads}


def measured(make: ModuleType, probe: Probe, **facts: Any) -> Bandwidth:
    return measure_bandwidth(cast("Any", probe), make.facts(**{"cores": 8, "cpu_clusters": CLUSTERS, **facts}))


@pytest.mark.parametrize(
    ("cores", "fast", "threads"),
    [(8, 4, (1, 2, 4, 8)), (8, 6, (1, 2, 4, 6, 8)), (8, 1, (1, 8)), (2, 2, (1, 2)), (1, 1, (1,)), (0, 0, (1,))],
)
def test_threads_double_up_to_the_fast_cores_and_then_all(cores: int, fast: int, threads: tuple[int, ...]) -> None:
    assert threads_to_try(cores, fast) == threads


def test_it_is_measured_on_the_fast_cores_and_on_all(make: ModuleType) -> None:
    probe = Probe()
    assert measured(make, probe) == Bandwidth({1: 10.0, 2: 20.0, 4: 40.0, 8: 80.0})
    assert [(threads, cpus) for threads, cpus, _, _ in probe.asked] == [((1, 2, 4), "4-7"), ((8,), None)]
    assert sum(len(threads) * seconds for threads, _, seconds, _ in probe.asked) <= MEASURE_S


def test_a_phone_that_moves_threads_is_measured_where_it_puts_them(make: ModuleType) -> None:
    probe = Probe(moves=True)
    assert measured(make, probe).best_gb_per_s == 80.0
    assert probe.asked[1][:2] == ((1, 2, 4, 8), None)


def test_where_fast_cores_are_not_known_all_count(make: ModuleType) -> None:
    probe = Probe()
    measured(make, probe, cpu_clusters=())
    assert [asked[:2] for asked in probe.asked] == [((1, 2, 4, 8), None)]


def test_a_failure_costs_the_figure_and_says_why(make: ModuleType) -> None:
    found = measured(make, Probe(fails=True))
    assert found.best_gb_per_s is None
    assert "a thread could not be kept on core 4 (EINVAL)" in found.why


@pytest.mark.parametrize(
    ("available", "megabytes"), [(8 << 30, 256), (1 << 30, 128), (100 << 20, 32), (None, 256), (0, 256)]
)
def test_a_phone_short_of_memory_is_asked_for_less(make: ModuleType, available: int | None, megabytes: int) -> None:
    probe = Probe()
    measured(make, probe, available_bytes=available)
    assert {asked[3] for asked in probe.asked} == {megabytes}


def test_of_two_measurements_the_better_counts_for_each_number_of_threads() -> None:
    first, second = Bandwidth({1: 10.0, 4: 30.0}), Bandwidth({1: 9.0, 4: 44.0, 8: 40.0})
    assert first.or_better(second) == Bandwidth({1: 10.0, 4: 44.0, 8: 40.0})
    assert Bandwidth(why="no").or_better(first) == first
    assert first.or_better(Bandwidth(why="no")) == first
