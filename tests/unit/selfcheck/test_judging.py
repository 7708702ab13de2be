"""How runs are judged: the pure parts, on logs made by hand."""

from __future__ import annotations

import pytest

from harness.payload.probe_events import End, Output, RunLog, Sample, Start
from harness.runners.events import parse_runner_output
from harness.selfcheck.alone import Stillness, missing_events, stillness
from harness.selfcheck.cores import Stay, cores_of, judge_stay
from harness.selfcheck.truth import figures, speed, time_ms

_MS = 1_000_000


def start(at_ms: int = 0) -> Start:
    return Start(0, at_ms * _MS, at_ms * _MS, 7, 6, "boot", ("sleep", "4"), 100, None)


def sample(at_ms: int, *, slept_ms: int = 0, cpu: int | None = None, allowed: str | None = None) -> Sample:
    return Sample(
        seq=1, mono_ns=at_ms * _MS, boot_ns=(at_ms + slept_ms) * _MS, processes=1, rss_bytes=1, anon_bytes=1,
        swap_bytes=0, hwm_bytes=1, threads=1, utime_ms=0, stime_ms=0, mem_available_bytes=1, cur_khz=(), cap_khz=(),
        milli_c=(), cpu=cpu, cpus_allowed=allowed,
    )  # fmt: skip


def end(at_ms: int, *, slept_ms: int = 0) -> End:
    return End(
        seq=9, mono_ns=at_ms * _MS, boot_ns=(at_ms + slept_ms) * _MS, exit_code=0, signal=None, why="exit", errno=None,
        maxrss_bytes=None, utime_ms=0, stime_ms=0, minflt=0, majflt=0, survivors=0, probe_cpu_ms=0, samples=1,
        file_error=None,
    )  # fmt: skip


def log_of(*events: Start | Sample | End) -> RunLog:
    log = RunLog()
    for event in events:
        log.add(event)
    return log


def test_a_phone_that_goes_on_never_stood_still() -> None:
    still = stillness(log_of(start(), sample(100), sample(250), end(300)))
    assert still == Stillness(0.15, 0.1, 0.0)
    assert not still.stood_still


def test_a_process_that_was_stopped_shows_in_the_pause_alone() -> None:
    still = stillness(log_of(start(), sample(100), sample(2_900), end(3_000)))
    assert still == Stillness(2.8, 0.1, 0.0)
    assert still.stood_still


def test_a_suspended_phone_shows_in_the_two_clocks_even_when_the_pause_is_short() -> None:
    still = stillness(log_of(start(), sample(100), sample(200, slept_ms=400), end(300, slept_ms=400)))
    assert still == Stillness(0.5, 0.1, 0.4)
    assert still.stood_still


def test_a_log_of_nothing_tells_no_pause() -> None:
    assert stillness(RunLog()) == Stillness(0.0, 0.0, 0.0)


def event(number: int) -> bytes:
    return b'{"seq":%d,"ev":"out","mono_ns":1,"boot_ns":1,"fd":1,"data":"x"}\n' % number


@pytest.mark.parametrize(("numbers", "missing"), [((0, 1, 2), 0), ((0, 2), 1), ((3, 4), 3), ((0, 1, 1, 2), 0), ((), 0)])
def test_missing_events_are_counted_by_their_numbers(numbers: tuple[int, ...], missing: int) -> None:
    assert missing_events(b"".join(map(event, numbers))) == missing


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match="event"):
        missing_events(b"garbage\n")


def test_a_run_that_stays_on_its_core_is_told_by_the_number_of_samples() -> None:
    log = log_of(start(), sample(0, cpu=7, allowed="7"), sample(20, cpu=7, allowed="7"), sample(40))
    assert judge_stay(log, 7) == Stay(2, "")


def test_affinity_that_is_gone_is_told_with_when_and_what_is_allowed() -> None:
    log = log_of(start(), sample(0, cpu=7, allowed="7"), sample(60, cpu=7, allowed="0-7"))
    assert judge_stay(log, 7) == Stay(2, "after 0.06 s it may run on 0-7, not on 7 alone")


def test_a_run_elsewhere_is_told_whatever_it_may() -> None:
    assert judge_stay(log_of(start(), sample(20, cpu=2, allowed="7")), 7) == Stay(
        1, "after 0.02 s it runs on core 2, not on 7"
    )


def test_a_phone_that_tells_nothing_gives_no_samples() -> None:
    assert judge_stay(log_of(start(), sample(20)), 7) == Stay(0, "")


@pytest.mark.parametrize(
    ("list_", "cores"), [("0-3", [0, 1, 2, 3]), ("0,4-5", [0, 4, 5]), ("7", [7]), ("", []), ("x-3", [])]
)
def test_the_cores_a_shell_may_use(list_: str, cores: list[int]) -> None:
    assert cores_of(f"Name:\tcat\nCpus_allowed:\tff\nCpus_allowed_list:\t{list_}\nMems_allowed:\t1\n") == cores


def test_a_status_without_the_line_allows_nothing() -> None:
    assert cores_of("Name:\tcat\n") == []


@pytest.mark.parametrize(("measured", "agrees"), [(97, False), (99, True), (100, True), (124, True), (126, False)])
def test_a_time_is_never_early_and_little_late(measured: float, agrees: bool) -> None:
    assert time_ms("load", 100, measured).agrees is agrees


def test_a_speed_is_never_above_and_little_below() -> None:
    assert [speed("decode", 50, value).agrees for value in (52, 50, 41, 39)] == [False, True, True, False]


def test_nothing_measured_agrees_with_nothing() -> None:
    figure = time_ms("TTFT", 80, None)
    assert not figure.agrees
    assert str(figure) == "TTFT 80 → nothing ms"


TOKENS = ", ".join(["20.0"] * 11)
GENERATION = (
    '{"event": "generation", "index": 0, "kind": "timed", "prompt_tokens": 32, "generated_tokens": 12, '
    f'"prefill_ms": 60.0, "ttft_ms": 80.0, "token_ms": [{TOKENS}], "finish": "length"}}\n'
).encode()
LOAD = b'{"event": "load", "load_ms": 150.0, "backend_requested": "cpu"}\n'


def outputs(*at_ms: int) -> RunLog:
    log = RunLog()
    log.outputs = [Output(0, at * _MS, at * _MS, 1, GENERATION) for at in at_ms]
    return log


def test_what_was_ordered_and_came_back_agrees() -> None:
    log = outputs(500, 800, 1100)
    seen = figures(log, parse_runner_output(LOAD + log.stdout))
    assert [figure.measured for figure in seen] == [150.0, 80.0, 32 / 0.06, 50.0, 300.0]
    assert all(figure.agrees for figure in seen)


def test_a_runner_whose_account_does_not_fit_the_probes_stamps_is_found_out() -> None:
    log = outputs(500, 600, 700)
    seen = {figure.name: figure.agrees for figure in figures(log, parse_runner_output(LOAD + log.stdout))}
    assert [name for name, agrees in seen.items() if not agrees] == ["generation by the probe's stamps"]


def test_a_runner_that_says_nothing_agrees_with_nothing() -> None:
    assert not any(figure.agrees for figure in figures(RunLog(), parse_runner_output(b"")))
