"""The gates of ``make bench`` and its table."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import MOST_MS, gates_of, main, table
from benchmarks.beside import OURS, Compared, Sample


def of(name: str, ours: float, **peers: float) -> Compared:
    values = {OURS: ours, **peers}
    return Compared(name, {way: [Sample(value, 1.0)] * 3 for way, value in values.items()}, {"mobly": "not installed"})


ALL = [of(name, most) for name, most in MOST_MS.items()]


def test_a_run_at_its_bounds_is_within_them() -> None:
    gates = gates_of(ALL, {"facts_shell_calls": 3})
    assert [gate.passed for gate in gates] == [True] * 6


@pytest.mark.parametrize("name", MOST_MS)
def test_each_bound_can_be_missed(name: str) -> None:
    late = [of(name, MOST_MS[name] * 1.01) if one.name == name else one for one in ALL]
    assert [gate.name for gate in gates_of(late, {"facts_shell_calls": 3}) if not gate.passed] == [f"{name}, ms"]


def test_a_fourth_call_for_facts_misses_the_bound() -> None:
    missed = [gate.name for gate in gates_of(ALL, {"facts_shell_calls": 4}) if not gate.passed]
    assert missed == ["facts of a phone, shell calls"]


def test_the_table_has_ratios_and_names_who_cannot() -> None:
    lines = list(table([of("push", 10.0, adb=20.0)]))
    assert lines[1] == "push                                   10.0 ms   adb 0.50 (0.50 to 0.50)"
    assert lines[2].strip() == "mobly: not installed"


def test_a_baseline_that_is_none_is_refused_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--against", "nowhere.json"])
    assert refused.value.code == 2
    assert "nowhere.json is no baseline" in capsys.readouterr().err
