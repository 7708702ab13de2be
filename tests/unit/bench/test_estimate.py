from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.estimate import estimate_s
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.plan.matrix import cells_of
from harness.plan.tiers import TierName


def seconds(make: ModuleType, tier: TierName = "mid", weights: int = 1_000_000_000, **plan: Any) -> float:
    chosen = make.plan(**plan)
    model = ModelFolder("toy", PayloadFolder(Path(), ()), weights, 4)
    return estimate_s(cells_of(chosen)[0], chosen, model, tier)


def test_a_cell_takes_its_load_its_generations_and_its_answers(make: ModuleType) -> None:
    # 0.1 s a token: load 1.5 + 3.33, three times (8 / 5 + 32) tokens, an answer of 32
    assert seconds(make) == pytest.approx(4.8333 + 3 * 3.36 + 3.2, abs=0.01)


def test_lower_tiers_and_bigger_models_take_longer(make: ModuleType) -> None:
    assert seconds(make, "high") < seconds(make, "mid") < seconds(make, "low")
    assert seconds(make, weights=1_000_000) < seconds(make)


def test_more_work_takes_longer(make: ModuleType) -> None:
    less = seconds(make)
    longer = {"kind": "sustained", "duration_s": 60.0}
    for more in ({"repeats": 3}, {"warmups": 2}, {"prompt_tokens": [64]}, {"generate_tokens": [64]}, longer):
        assert seconds(make, **more) > less
    assert seconds(make, ask=[]) < less


def test_history_is_computed_before_each_generation_and_a_model_is_loaded_in_rounds(make: ModuleType) -> None:
    # three times 1024 tokens at a fifth of 0.1 s each; two more loads of 3.33 s
    assert seconds(make, context_tokens=[1024]) - seconds(make) == pytest.approx(3 * 1024 * 0.02)
    assert seconds(make, load_rounds=4) - seconds(make, load_rounds=2) == pytest.approx(6.6667, abs=0.001)


def test_a_sustained_cell_takes_the_time_it_is_given(make: ModuleType) -> None:
    one, two = (seconds(make, kind="sustained", duration_s=s, cell_timeout_s=900.0) for s in (60.0, 180.0))
    assert two - one == pytest.approx(120.0)


def test_the_smallest_model_is_bound_by_the_engine(make: ModuleType) -> None:
    assert seconds(make, weights=1, ask=[]) == pytest.approx(1.5 + 3 * (8 * 0.002 / 5 + 32 * 0.002))


def test_a_sustained_cell_takes_its_duration_and_finishes_its_last_generation(make: ModuleType) -> None:
    # load 1.5 + 3.33, a warm-up of 3.36, ten minutes and half a generation
    soak = {"kind": "sustained", "duration_s": 600.0, "cell_timeout_s": 900.0, "ask": []}
    assert seconds(make, **soak) == pytest.approx(4.8333 + 3.36 + 600 + 1.68, abs=0.01)
    assert seconds(make, **soak, repeats=50) == seconds(make, **soak)
