from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import pytest

from harness.bench.sensed import busy_cores, states_of
from harness.core.cores import parse_cpu_list
from harness.payload.probe_events import RunLog

# Four slow cores, three fast ones and the fastest.
TOPS = {0: 1_800_000, 1: 1_800_000, 2: 1_800_000, 3: 1_800_000, 4: 2_500_000, 5: 2_500_000, 6: 2_500_000, 7: 3_000_000}


def run(make: ModuleType, *samples: dict[str, Any], cpus: int = 8) -> RunLog:
    log: RunLog = make.run(samples=tuple(make.sample(**{"cur_khz": (), "cap_khz": (), **one}) for one in samples))
    assert log.sensors is not None
    log.sensors = dataclasses.replace(log.sensors, cpus=tuple(range(cpus)))
    return log


@pytest.mark.parametrize(
    ("samples", "busy"),
    [
        ([{}], (7,)),
        ([{"cpu": 5, "cpus_allowed": "0-7"}] * 9, (4, 5, 6)),
        ([{"cpu": 5, "cpus_allowed": "4,5"}] * 9, (4, 5)),
        ([{"cpus_allowed": "0-3"}], (0, 1, 2, 3)),
        ([{"threads_allowed": ("4-5", "6")}], (4, 5, 6)),
        ([{"cpu": 0}] + [{"cpu": 7}] * 20, (7,)),
        ([{"cpu": 0}] * 10 + [{"cpu": 7}] * 10, (0, 1, 2, 3, 7)),
        ([{"cpu": 99, "cpus_allowed": "no list"}], (7,)),
    ],
    ids=[
        "the fastest",
        "where it was seen",
        "within those allowed",
        "allowed only",
        "allowed to threads",
        "passed by",
        "two places",
        "nonsense",
    ],
)
def test_busy_cores_are_found_as_far_as_samples_tell(
    make: ModuleType, samples: list[dict[str, Any]], busy: tuple[int, ...]
) -> None:
    assert busy_cores(run(make, *samples), TOPS) == busy


def test_only_samples_of_the_time_in_which_tokens_were_made_count(make: ModuleType) -> None:
    log = run(make, *[{"mono_ns": 1, "cpu": 0}] * 9, *[{"mono_ns": 100, "cpu": 7}] * 3)
    assert busy_cores(log, TOPS, (50, 200)) == (7,)


def test_without_known_tops_the_highest_clock_that_was_seen_is_the_top(make: ModuleType) -> None:
    log = run(make, {"cap_khz": (1_000, 2_000)}, {"cap_khz": (1_000, 1_500), "cur_khz": (900, 1_000)}, cpus=2)
    assert [(s.cap_ratio, s.clock_ratio) for s in states_of(log, {})] == [(1.0, None), (0.75, 0.5)]


def test_a_core_that_was_switched_off_has_no_clock(make: ModuleType) -> None:
    log = run(make, {"cap_khz": (1_000, 2_000)}, {"cap_khz": (1_000, None)}, cpus=2)
    assert [s.cap_ratio for s in states_of(log, {0: 1_000, 1: 2_000})] == [1.0, None]


def test_a_phone_without_clocks_has_none(make: ModuleType) -> None:
    assert [s.cap_ratio for s in states_of(run(make, {}, {}, cpus=0), {})] == [None, None]


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-2,7", {0, 1, 2, 7}), ("3", {3}), (" 0,1\n", {0, 1}), ("", set()), ("x", set()), ("3-", set()), ("5-4", set())],
)
def test_a_list_of_cores_is_read(text: str, cpus: set[int]) -> None:
    assert (parse_cpu_list(text) or set()) == cpus
