from __future__ import annotations

from harness.payload.pace import Pace, size_words


class Ticking:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_push_is_told_at_once_then_each_second_with_rate_and_time_left() -> None:
    said: list[str] = []
    clock = Ticking()
    pace = Pace("model toy", 1_100_000_000, 0, said.append, clock=clock)
    for _ in range(24):
        clock.now_s += 0.125
        pace.moved(4_375_000)
    assert said == [
        "pushing model toy 0 % of 1.1 GB",
        "pushing model toy 3 % of 1.1 GB, 35 MB/s, 30 s left",
        "pushing model toy 6 % of 1.1 GB, 35 MB/s, 29 s left",
        "pushing model toy 9 % of 1.1 GB, 35 MB/s, 28 s left",
    ]


def test_a_fast_one_is_told_each_ten_percent_and_without_a_rate_that_is_none() -> None:
    said: list[str] = []
    clock = Ticking()
    pace = Pace("m", 1_000_000, 0, said.append, clock=clock)
    for _ in range(20):
        clock.now_s += 0.001
        pace.moved(50_000)
    assert said == [f"pushing m {percent} % of 1.0 MB" for percent in range(0, 101, 10)]


def test_what_was_there_before_counts_as_done_but_not_as_speed() -> None:
    said: list[str] = []
    clock = Ticking()
    pace = Pace("m", 1_000_000_000, 500_000_000, said.append, clock=clock)
    clock.now_s = 2.0
    pace.moved(4_000_000)
    assert said == ["pushing m 50 % of 1.0 GB", "pushing m 50 % of 1.0 GB, 2.0 MB/s, 4 min left"]


def test_nothing_to_push_is_done() -> None:
    said: list[str] = []
    Pace("m", 0, 0, said.append)
    assert said == ["pushing m 100 % of 0.0 MB"]


def test_sizes_are_for_people() -> None:
    assert [size_words(count) for count in (0, 1_550_000, 999_000_000, 1_100_000_000)] == [
        "0.0 MB",
        "1.6 MB",
        "999.0 MB",
        "1.1 GB",
    ]
