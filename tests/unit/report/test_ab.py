"""Two builds that took turns: which records belong together, and what drifted cancels."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.core.reasons import Reason
from harness.plan.matrix import arms_of
from harness.report.ab import change_of_turns, pairs_of
from harness.report.compare import compare_builds
from harness.store.schema import CellRecord

TRIALS = 300


def turns(rounds: int, ratio: float, drift: Any, cv: float, rng: np.random.Generator) -> list[float | None]:
    """The speed of each turn on a phone that drifts: 1 at the first, ``1 + drift(1)`` at the last."""
    arms = arms_of(rounds)
    times = np.linspace(0, 1, len(arms))
    noise = 1 + cv * rng.standard_normal(len(arms))
    return [
        float(50 * (ratio if arm == "B" else 1) * (1 + drift(time)) * shake)
        for arm, time, shake in zip(arms, times, noise, strict=True)
    ]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("share", [-0.1, 0.1])
def test_a_linear_drift_of_a_tenth_leaves_the_true_ratio_within_a_hundredth(rounds: int, share: float) -> None:
    rng = np.random.default_rng(1)
    for ratio in (0.9, 1.0, 1.05):
        change = change_of_turns(arms_of(rounds), turns(rounds, ratio, lambda t: share * t, 0, rng))
        assert change.ratio == pytest.approx(ratio, abs=0.002)
        noisy = [
            change_of_turns(arms_of(rounds), turns(rounds, ratio, lambda t: share * t, 0.003, rng)).ratio
            for _ in range(100)
        ]
        assert sum(abs((one or 0) - ratio) < 0.01 for one in noisy) >= 98


def test_one_after_the_other_would_have_taken_the_drift_for_a_change() -> None:
    values = turns(2, 1.0, lambda t: -0.1 * t, 0, np.random.default_rng(1))
    known = [value for value in values if value is not None]
    assert sum(known[4:]) / sum(known[:4]) < 0.95
    assert change_of_turns(arms_of(2), values).verdict == "same"


def test_a_phone_that_warms_up_and_stays_warm_is_no_change_either() -> None:
    change = change_of_turns(
        arms_of(2), turns(2, 1.0, lambda t: -0.1 * (1 - np.exp(-3 * t)), 0, np.random.default_rng(1))
    )
    assert change.ratio == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_without_a_change_at_most_a_twentieth_is_called_one(rounds: int) -> None:
    rng = np.random.default_rng(2)
    called = [
        change_of_turns(arms_of(rounds), turns(rounds, 1.0, lambda t: -0.1 * t, 0.02, rng)).verdict
        for _ in range(TRIALS)
    ]
    assert sum(verdict in ("faster", "slower") for verdict in called) <= 0.05 * TRIALS


def test_a_twentieth_is_found_in_two_rounds_of_turns_that_differ_by_one_percent() -> None:
    rng = np.random.default_rng(3)
    found = [change_of_turns(arms_of(2), turns(2, 0.95, lambda t: -0.1 * t, 0.01, rng)).verdict for _ in range(TRIALS)]
    assert found.count("slower") >= 0.9 * TRIALS


def test_where_it_cannot_be_told_whole_rounds_are_asked_for() -> None:
    change = change_of_turns(arms_of(1), [50, 49, 47.5, 49.2])
    assert change.verdict == "cannot tell"
    assert change.more_repeats is not None
    assert change.more_repeats % 2 == 0


def test_turns_without_a_figure_are_left_out_and_too_few_say_so() -> None:
    values = turns(2, 0.9, lambda t: -0.1 * t, 0.001, np.random.default_rng(4))
    assert change_of_turns(arms_of(2), [*values[:7], None]).verdict == "slower"
    few = change_of_turns(arms_of(1), [50.0, None, None, 51.0])
    assert (few.verdict, few.ratio, few.why) == ("cannot tell", None, "too few turns have a figure")
    assert change_of_turns(arms_of(1), [None] * 4).verdict == "cannot tell"


def turn(make: ModuleType, number: int, tps: float, *, of: int = 4, **over: Any) -> CellRecord:
    arm = arms_of(of // 4)[number]
    ab = {"pair": "p", "arm": arm, "block": number, "blocks": of}
    record: CellRecord = make.record(tps=tps, ab=ab, cell_id=arm * 64, run_id="ab", **over)
    return record


def test_the_latest_turns_from_the_first_on_belong_together(make: ModuleType) -> None:
    before = [turn(make, number, 40) for number in range(3)]
    now = [turn(make, number, 50) for number in range(4)]
    [pair] = pairs_of([*before, make.record("other"), *now])
    assert pair.records == tuple(now)
    assert pair.done
    assert [record.cell_id[0] for record in pair.of("B")] == ["B", "B"]
    assert not pairs_of(now[:3])[0].done


def test_a_turn_that_the_lab_spoilt_leaves_them_unfinished(make: ModuleType) -> None:
    spoilt = [turn(make, number, 50) for number in range(3)] + [turn(make, 3, 50, reason=Reason.NOISY)]
    assert not pairs_of(spoilt)[0].done
    crashed = [turn(make, number, 50) for number in range(3)] + [turn(make, 3, 50, reason=Reason.CRASH)]
    assert pairs_of(crashed)[0].done


def test_what_b_changed_is_told_of_every_figure(make: ModuleType) -> None:
    records = [turn(make, n, (50 if arms_of(2)[n] == "A" else 44) * (1 - n / 100), of=8) for n in range(8)]
    [cell] = compare_builds(records).cells
    decode, memory = cell.figure("decode_tps"), cell.figure("peak_rss_bytes")
    assert decode is not None
    assert memory is not None
    assert decode.change.verdict == "slower"
    assert decode.change.ratio == pytest.approx(0.88, abs=0.002)
    assert memory.change.verdict == "same"
    assert (cell.regression, cell.marks) == (True, ())


def test_a_build_that_crashes_in_one_of_its_turns_is_broken(make: ModuleType) -> None:
    records = [turn(make, n, 50) for n in range(3)] + [turn(make, 3, 50)]
    records[2] = turn(make, 2, 50, reason=Reason.CRASH)
    [cell] = compare_builds(records).cells
    assert (cell.state, cell.words, cell.regression) == ("broken", "ok → crash", True)


def test_one_build_alone_says_nothing(make: ModuleType) -> None:
    [cell] = compare_builds([turn(make, 0, 50)]).cells
    assert (cell.state, cell.words) == ("cannot tell", "only one of the builds has been run")
