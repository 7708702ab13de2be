from __future__ import annotations

import pytest

from benchmarks.push import Gate, ratio


@pytest.mark.parametrize(
    ("gate", "passed"),
    [
        (Gate("speed", 1.0, least=1.0), True),
        (Gate("speed", 0.999, least=1.0), False),
        (Gate("time", 100.0, most=100.0), True),
        (Gate("bytes", 1, most=0), False),
    ],
)
def test_a_gate_is_kept_up_to_its_bound(gate: Gate, passed: bool) -> None:
    assert gate.passed is gate.as_dict()["passed"] is passed
    assert gate.row().endswith("ok" if passed else "MISSED")


def test_the_ratio_is_the_middle_one_of_the_rounds_and_above_one_when_ours_is_faster() -> None:
    assert ratio({"ours": [1.0, 2.0, 1.0], "adb_push": [3.0, 2.0, 1.2]}, "adb_push") == 1.2
