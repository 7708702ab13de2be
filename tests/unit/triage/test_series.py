"""Readers of what people and programs repeat: times and memory in a row, two states of a phone, clocks."""

from __future__ import annotations

import pytest

from harness.triage.entry import Entry, read_entry
from harness.triage.readers.clocks import clock_entries
from harness.triage.readers.series import series_entries
from harness.triage.readers.states import state_entries
from harness.triage.readers.walltime import walltime_entries


def entries(text: str) -> list[Entry]:
    return [read_entry(line.encode(), "x", number, "text") for number, line in enumerate(text.split("\n"), 1)]


def told(found: list[Entry]) -> list[str]:
    return [entry.text for entry in found]


@pytest.mark.parametrize(
    ("times", "line"),
    [
        ((50, 20, 20, 21, 20, 40, 41, 40, 42), "series: slower first=20 last=42 times=2.0 count=9"),
        ((20, 9, 22, 8, 25, 9, 30, 8), "series: spread low=8 high=30 median=14.5 count=8"),
    ],
)
def test_times_in_a_row_tell_of_decay_and_of_spread(times: tuple[int, ...], line: str) -> None:
    text = "\n".join(f"infer cost {time} ms" for time in times)
    assert told(list(series_entries(entries(text)))) == [line]


def test_speeds_in_a_row_are_slower_when_they_fall() -> None:
    text = "\n".join(f"run {n}: decode {speed} tok/s" for n, speed in enumerate((9, 20, 20, 20, 20, 10, 10, 10, 10)))
    assert told(list(series_entries(entries(text)))) == ["series: slower first=20 last=10 times=2.0 count=9"]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"infer cost {time} ms" for time in (90, 20, 21, 20, 21, 20, 21, 20)),
        "\n".join(f"infer cost {time} ms" for time in (20, 40, 20, 40)),
        "\n".join(f"token {n} took {20 + 3 * n} ms" for n in range(1, 20)),
        "\n".join(f"Conv_{n} {n * n} ms" for n in range(1, 12)),
        "\n".join(f"layer {n * n} took {n} ms" for n in range(1, 12)),
        "total time : 5.1 ms, total mflops : 10\ntotal time : 90.1 ms, total mflops : 200",
    ],
)
def test_a_first_run_a_few_runs_and_the_layers_of_a_profile_tell_nothing(text: str) -> None:
    assert told(list(series_entries(entries(text)))) == []


def test_memory_that_only_grows_is_told_and_memory_that_goes_up_and_down_is_not() -> None:
    grows = "\n".join(f"PSS: {800 + 90 * n} MB" for n in range(10))
    steady = "\n".join(f"PSS: {800 + 90 * (n % 3)} MB" for n in range(10))
    assert told(list(series_entries(entries(grows)))) == ["memory: grows first=800 last=1610 runs=10"]
    assert told(list(series_entries(entries(steady)))) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("foreground: 100 ms\nbackground: 400 ms", "state: slower state=background fast=100 slow=400 times=4.0"),
        ("foreground 12 tok/s, background 3 tok/s", "state: slower state=background fast=12 slow=3 times=4.0"),
        (
            "phone awake: done in 6.5s\nphone locked: done in 1m 5.0s",
            "state: slower state=background fast=6500 slow=6.5e+04 times=10.0",
        ),
        (
            "decode drops from 14 tok/s to 2 tok/s with the screen off",
            "state: slower state=background fast=14 slow=2 times=7.0",
        ),
        ("手机发烫，从 12 tok/s 降到 5 tok/s", "state: slower state=hot fast=12 slow=5 times=2.4"),
        ("cooled: 10 tok/s\nthrottled: 5 tok/s", "state: slower state=hot fast=10 slow=5 times=2.0"),
        ("5x slower when locked", "state: slower state=background fast=1 slow=5 times=5"),
        ("前台 100 ms，后台 500 ms", "state: slower state=background fast=100 slow=500 times=5.0"),
        ("adb shell: 20 21 22 ms\nin the app: 50 60 70 ms", "state: slower state=app fast=21 slow=60 times=2.9"),
        ("benchmark\ncost 20 ms\napp\ncost 60 ms", "state: slower state=app fast=20 slow=60 times=3.0"),
        ("with warm-up: 30 ms\nwithout warming up: 90 ms", "state: slower state=cold fast=30 slow=90 times=3.0"),
        ("start: 20 FPS\nafter 5 min: 10 FPS", "state: slower state=later fast=20 slow=10 times=2.0"),
        ("first 300 frames: 8 ms\nafterwards: 12 ms", "state: slower state=later fast=8 slow=12 times=1.5"),
    ],
)
def test_two_states_of_a_phone_are_compared(text: str, line: str) -> None:
    assert told(list(state_entries(entries(text)))) == [line]


@pytest.mark.parametrize(
    "text",
    [
        "foreground: 100 ms\nbackground: 110 ms",
        "foreground: 100 ms\nbackground: 9 tok/s",
        "background: 400 ms",
        "app start took 900 ms",
        "first run: loading took 900 ms\nsecond run: loading took 100 ms",
        "after the restart: 400 ms\nfirst 3 runs: 100 ms",
        "the background thread was woken 3 times",
        "first 100 tokens: 20 ms\nafter 4000 tokens: 40 ms",
    ],
)
def test_states_that_do_not_differ_or_stand_alone_tell_nothing(text: str) -> None:
    assert told(list(state_entries(entries(text)))) == []


def test_a_limit_below_what_the_core_can_do_is_told() -> None:
    text = (
        "/sys/devices/system/cpu/cpu4/cpufreq/cpuinfo_max_freq => '2419200\\n'\n"
        "/sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq => '1401600\\n'\n"
        "cpu0 cpuinfo_max_freq: 1804800\ncpu0 scaling_max_freq: 1804800"
    )
    assert told(list(clock_entries(entries(text)))) == ["clock: capped core=cpu4 now=1401600 full=2419200"]


def test_a_clock_that_fell_is_told_only_where_heat_is_spoken_of() -> None:
    fell = "starts at 2.8 GHz\nends at 1.2 GHz"
    assert told(list(clock_entries(entries(fell)))) == []
    assert told(list(clock_entries(entries(fell + ", the phone is hot")))) == ["clock: fell from=2.8GHz to=1.2GHz"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("real\t0m50.0s\nuser\t0m5.5s\nsys\t0m4.5s", ["walltime: waited real=50.0 cpu=10.0"]),
        ("    1m40.00s real     0m10.50s user     0m09.50s system", ["walltime: waited real=100.0 cpu=20.0"]),
        ("real\t0m50.0s\nuser\t3m5.5s\nsys\t0m4.5s", []),
        ("real\t0m5.0s\nuser\t0m0.1s\nsys\t0m0.1s", []),
        ("real\t0m50.0s", []),
    ],
)
def test_a_program_that_waits_more_than_it_computes_is_told(text: str, lines: list[str]) -> None:
    assert told(list(walltime_entries(entries(text)))) == lines


def test_masks_of_cores_are_told_only_where_they_make_a_difference() -> None:
    assert told(list(clock_entries(entries("taskset f0: 100 ms\ntaskset 0f: 300 ms")))) == [
        "cores: differ best=f0 worst=0f times=3.0"
    ]
    assert told(list(clock_entries(entries("taskset f0: 100 ms\ntaskset ff: 110 ms")))) == []


def test_a_range_is_a_spread_only_where_one_thing_is_said_to_vary() -> None:
    assert told(list(series_entries(entries("the time varies from 90 ms to 260 ms")))) == [
        "series: spread low=90 high=260 median=? count=?"
    ]
    assert told(list(series_entries(entries("supported sizes take 80 to 240 ms")))) == []
    assert told(list(series_entries(entries("the time varies from 80 to 100 ms")))) == []


def test_three_runs_are_enough_where_the_text_speaks_of_heat() -> None:
    runs = "run 1: 20 tok/s\nrun 2: 15 tok/s\nrun 3: 10 tok/s\n"
    assert told(list(series_entries(entries(runs)))) == []
    assert told(list(series_entries(entries(runs + "skin at 46 °C")))) == [
        "series: slower first=20 last=10 times=2.0 count=3"
    ]
