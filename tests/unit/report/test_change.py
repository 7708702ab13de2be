"""Whether a speed changed, or only the noise did."""

from harness.report.change import change_of


def test_a_clear_slow_down_is_called_one():
    change = change_of([100.0, 101.0, 99.0, 100.5], [90.0, 91.0, 89.5, 90.2])
    assert change.verdict == "slower"
    assert change.ratio is not None
    assert abs(change.ratio - 0.9) < 0.01


def test_more_milliseconds_are_slower():
    assert change_of([10.0, 10.1, 9.9], [12.0, 12.1, 11.9], higher_is_better=False).verdict == "slower"


def test_two_repeats_tell_nothing():
    change = change_of([10.0, 10.1], [12.0, 12.1, 11.9])
    assert (change.verdict, change.more_repeats) == ("cannot tell", 1)
