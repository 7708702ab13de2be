from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from harness.bench.levels import find_fall, series_of

# Where nothing but speed is known a fall of this share is told from wandering within two minutes.
CLEAR = 0.2


@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_steady_noisy_runs_give_no_alarm(runs: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        how = {
            "seconds": float(rng.choice([3.0, 10.0, 30.0, 90.0])),
            "tps": float(rng.choice([6.0, 20.0, 60.0])),
            "tokens": int(rng.choice([16, 48, 128])),
            "noise": float(rng.uniform(0.0, 0.1)),
            "wander": float(rng.uniform(0.0, 0.07)),
            "wander_s": float(rng.uniform(0.2, 3.0)),
            "depth": float(rng.uniform(0.0, 0.6)),
            "stalls": int(rng.integers(0, 4)),
        }
        assert find_fall(runs.series(rng, **how)) is None, how


@pytest.mark.parametrize("by", [0.1, 0.15, 0.2, 0.3, 0.45, 0.6])
def test_a_drop_is_dated_within_a_second(runs: ModuleType, by: float) -> None:
    rng = np.random.default_rng(round(by * 100))
    for _ in range(12):
        seconds = 240.0 if by < CLEAR else 90.0
        after_s = float(rng.uniform(0.25, 0.7) * seconds)
        fall = find_fall(runs.series(rng, runs.drop(after_s, by), seconds=seconds, noise=0.05))
        assert fall is not None
        assert fall.at_ms / 1000 == pytest.approx(after_s, abs=1.0)
        assert fall.by == pytest.approx(by, abs=0.03)


def test_a_small_drop_is_found_in_a_long_quiet_run(runs: ModuleType) -> None:
    rng = np.random.default_rng(5)
    fall = find_fall(runs.series(rng, runs.drop(900.0, 0.09), seconds=2400.0, noise=0.02))
    assert fall is not None
    assert fall.at_ms / 1000 == pytest.approx(900.0, abs=1.0)


def test_the_first_of_many_steps_is_the_onset(runs: ModuleType) -> None:
    rng = np.random.default_rng(2)
    governor = runs.steps((20.0, 0.8), (24.0, 0.6), (30.0, 0.5), (50.0, 0.4))
    fall = find_fall(runs.series(rng, governor, seconds=100.0))
    assert fall is not None
    assert fall.at_ms / 1000 == pytest.approx(20.0, abs=1.0)


def test_a_slow_decay_is_found_near_its_beginning(runs: ModuleType) -> None:
    rng = np.random.default_rng(3)
    fall = find_fall(runs.series(rng, runs.decay(60.0, 240.0, 0.6), seconds=400.0))
    assert fall is not None
    assert 50.0 < fall.at_ms / 1000 < 85.0
    assert fall.by > 0.25


def test_a_decay_from_the_first_second_is_a_fall_too(runs: ModuleType) -> None:
    fall = find_fall(runs.series(np.random.default_rng(4), runs.decay(0.0, 300.0, 0.7), seconds=400.0))
    assert fall is not None
    assert fall.at_ms / 1000 < 40.0


def test_a_phone_that_recovers_says_when(runs: ModuleType) -> None:
    fall = find_fall(runs.series(np.random.default_rng(6), runs.drop(40.0, 0.4, until_s=80.0), seconds=120.0))
    assert fall is not None
    assert fall.at_ms / 1000 == pytest.approx(40.0, abs=1.0)
    assert fall.until_ms is not None
    assert fall.until_ms / 1000 == pytest.approx(80.0, abs=2.0)


def test_a_phone_that_becomes_faster_has_not_fallen(runs: ModuleType) -> None:
    assert find_fall(runs.series(np.random.default_rng(7), runs.decay(0.0, 60.0, -0.5))) is None


def test_the_growing_context_of_a_generation_is_no_fall(runs: ModuleType) -> None:
    rng = np.random.default_rng(8)
    assert find_fall(runs.series(rng, tokens=400, seconds=80.0, depth=0.8)) is None


def test_below_three_generations_depth_and_heat_cannot_be_told_apart(runs: ModuleType) -> None:
    generations = runs.made_up(np.random.default_rng(9), runs.drop(10.0, 0.5), tokens=300, seconds=40.0)
    assert find_fall(series_of(generations[:2])) is None
    assert series_of(generations[:2]).comparable is False


@pytest.mark.parametrize("pattern", [[1.0, 1.0, 1.0, 1.0, 17.0], [0.05] * 160 + [12.0]], ids=["tokens", "a quota"])
def test_where_every_moment_has_its_pauses_nothing_is_cut(pattern: list[float]) -> None:
    took = np.tile(pattern, 200)
    found = series_of([(np.cumsum(took), took)])
    assert found.level_ms.tolist() == pytest.approx(took.tolist())


def test_a_single_pause_counts_little_for_a_level_and_wholly_for_a_speed() -> None:
    took = np.full(500, 10.0)
    took[200] = 900.0
    found = series_of([(np.cumsum(took), took)])
    assert found.level_ms.max() < 150.0
    assert found.tps() == pytest.approx(1000 * 500 / 5890)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_too_few_tokens_say_nothing(count: int) -> None:
    took = np.full(count, 10.0)
    assert find_fall(series_of([(np.cumsum(took), took)] * 3 if count else [])) is None
