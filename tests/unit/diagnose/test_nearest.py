"""The search for the nearest settings that work: it ends, runs nothing twice, and finds neighbours."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.reasons import Reason
from harness.diagnose.nearest import LEVELS, Axis, Room, Search, axes_of, find_nearest
from harness.diagnose.setting import Setting

ROOM = Room(cores=8, backends=("cpu", "opencl"))
FAILS = Setting(threads=8, prompt_tokens=512)


class Phone:
    """Works where a rule says so; remembers what it was asked, and wants nothing twice."""

    def __init__(self, rule: object) -> None:
        self.rule = rule
        self.asked: list[Setting] = []

    def works(self, setting: Setting) -> bool:
        assert setting not in self.asked, f"{setting} was run twice"
        self.asked.append(setting)
        return bool(self.rule(setting))  # type: ignore[operator]


def search(phone: Phone, failing: Setting = FAILS, room: Room = ROOM, **how: object) -> Search:
    return find_nearest(failing, axes_of(failing, room), phone.works, **how)  # type: ignore[arg-type]


def test_the_most_threads_that_work_are_found_by_halving() -> None:
    phone = Phone(lambda setting: setting.threads <= 5)
    assert search(phone).found == [replace(FAILS, threads=5)]
    assert [one.threads for one in phone.asked if one.threads != 8] == [1, 5, 7, 6]


def test_the_longest_prompt_that_works_is_found_to_a_sixteenth() -> None:
    phone = Phone(lambda setting: setting.prompt_tokens <= 300)
    assert search(phone).found == [replace(FAILS, prompt_tokens=288)]
    assert len(phone.asked) < 16


def test_what_is_known_already_is_not_run() -> None:
    one = replace(FAILS, threads=1)
    phone = Phone(lambda setting: setting.threads == 1)
    assert search(phone, known={one: True}).found == [one]
    assert one not in phone.asked


def test_the_nearest_level_of_precision_is_preferred_to_the_farthest() -> None:
    phone = Phone(lambda setting: setting.precision != "low")
    assert search(phone).found == [replace(FAILS, precision="normal")]


def test_two_ways_out_are_enough() -> None:
    phone = Phone(lambda setting: setting != FAILS)
    found = search(phone).found
    assert found == [replace(FAILS, prompt_tokens=480), replace(FAILS, threads=7)]


def test_where_no_change_helps_alone_those_that_help_together_are_kept_and_the_others_taken_back() -> None:
    phone = Phone(lambda setting: setting.threads == 1 and setting.precision == "high")
    assert search(phone).found == [replace(FAILS, threads=1, precision="high")]


def test_where_nothing_works_nothing_is_found_and_everything_was_tried() -> None:
    phone = Phone(lambda _: False)
    found = search(phone)
    assert (found.found, found.whole) == ([], True)
    assert found.tried == dict.fromkeys(phone.asked, False)


def test_a_search_whose_time_is_over_says_so_and_keeps_what_works() -> None:
    phone = Phone(lambda setting: setting.threads <= 5)
    found = search(phone, is_over=lambda: len(phone.asked) >= 3)
    assert len(phone.asked) == 3
    assert not found.whole
    assert [one.threads for one in found.found] == [5]


def test_who_is_interrupted_keeps_what_was_found_so_far() -> None:
    so_far = Search()

    def works(setting: Setting) -> bool:
        if setting.prompt_tokens == FAILS.prompt_tokens:
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        find_nearest(FAILS, axes_of(FAILS, ROOM), works, search=so_far)
    assert so_far.found == [replace(FAILS, prompt_tokens=480)]


@pytest.mark.parametrize(
    ("reason", "first"),
    [(Reason.OUT_OF_MEMORY, "use_mmap"), (Reason.OUTPUT_WRONG, "threads"), (Reason.HANG, "prompt_tokens")],
)
def test_what_helped_most_often_against_a_failure_is_tried_first(reason: Reason, first: str) -> None:
    assert axes_of(FAILS, ROOM, reason)[0].name == first


def test_a_gpu_is_no_matter_of_threads_and_the_cpu_is_its_first_way_out() -> None:
    axes = axes_of(Setting(backend="opencl", threads=8), Room(8, ("cpu", "opencl", "vulkan")), Reason.CRASH)
    assert "threads" not in [axis.name for axis in axes]
    assert [axis.values[1] for axis in axes if axis.name == "backend"] == ["cpu", "vulkan"]


def test_mapping_is_turned_to_what_the_model_does_not_have() -> None:
    [axis] = [one for one in axes_of(FAILS, replace(ROOM, uses_mmap=True)) if one.name == "use_mmap"]
    assert axis.values == (None, False)


SETTINGS = st.builds(
    Setting,
    backend=st.sampled_from(["cpu", "opencl"]),
    threads=st.integers(1, 16),
    precision=st.sampled_from(LEVELS),
    memory=st.sampled_from(LEVELS),
    prompt_tokens=st.integers(1, 1000),
    use_mmap=st.sampled_from([None, True, False]),
)


@settings(max_examples=60, deadline=None)
@given(SETTINGS, st.integers(1, 16), st.integers(0, 2**32 - 1))
def test_whatever_works_the_search_ends_runs_nothing_twice_and_tells_only_what_works(
    failing: Setting, cores: int, salt: int
) -> None:
    phone = Phone(lambda setting: crc32(f"{setting} {salt}".encode()) % 3 == 0)
    found = search(phone, failing, Room(cores, ("cpu", "opencl")))
    assert failing not in phone.asked
    assert all(found.tried[one] for one in found.found)
    assert len(found.found) <= 2
    assert len(phone.asked) < 80


@settings(max_examples=60, deadline=None)
@given(SETTINGS, st.integers(1, 1000), st.integers(1, 16))
def test_along_one_axis_with_one_border_what_is_found_is_the_neighbour_of_what_fails(
    failing: Setting, tokens: int, threads: int
) -> None:
    """The property of bisection: the step before the one that is found fails."""
    for axis in axes_of(failing, Room(16)):
        borders = {"threads": threads, "prompt_tokens": tokens}

        def good(setting: Setting, axis: Axis = axis, borders: dict[str, int] = borders) -> bool:
            place = axis.values.index(getattr(setting, axis.name))
            return place > borders.get(axis.name, 0) % max(1, len(axis.values) - 1)

        phone = Phone(good)
        [found] = find_nearest(failing, [axis], phone.works).found
        place = axis.values.index(getattr(found, axis.name))
        assert good(found)
        assert place == 1 or not good(axis.at(failing, place - 1))
        assert set(failing.changes(found)) <= {axis.name}
