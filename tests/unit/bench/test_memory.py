from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.evidence import Evidence
from harness.bench.memory import baseline_rss, memory_of, memory_was_free, remarks_on_memory
from harness.bench.moments import Span, first_load_ns, timed_span
from harness.phone.probed import Denied

MIB = 1 << 20
KILL = (
    b"06-01 10:00:01.000   479   479 I lowmemorykiller: Kill '%s' (%d), uid 10137, oom_score_adj 905 to free 9kB rss\n"
)


def figures(evidence: Evidence) -> tuple[dict[str, Any], dict[str, str]]:
    nulls: dict[str, str] = {}
    return memory_of(evidence, nulls), nulls


def with_memory(make: ModuleType, sizes: list[int], loads: list[int] | None = None, **over: Any) -> Evidence:
    """A cell whose timed generations, and loads, end with so much in memory, as the runner tells."""
    told = make.events()
    first, *middle = told[:2]
    load = middle[0]
    rounds = [{**load, "round": n, "rss_bytes": size} for n, size in enumerate(loads)] if loads else [load]
    generations = [make.generation(n + 1, "timed", rss_bytes=size) for n, size in enumerate(sizes)]
    plan = make.plan(repeats=max(1, len(sizes)), load_rounds=max(1, len(loads or ())))
    return make.evidence([first, *rounds, told[2], *generations, *told[5:]], the_plan=plan, **over)


def timed_sample(make: ModuleType, **over: Any) -> Any:
    """A sample amid the timed generations of the honest cell."""
    return make.sample(**{"mono_ns": 1500 * make.MS, **over})


def test_timed_generations_span_from_the_end_of_what_was_before_to_their_own(make: ModuleType) -> None:
    assert timed_span(make.evidence()) == Span(1130 * make.MS, 1880 * make.MS)
    # told by the runner: 42 ms to the first token and 31 more of 20.4 ms
    told = make.evidence(bend=lambda events: [events[n].update(begun_ns=n * 1000 * make.MS) for n in (3, 4)])
    assert timed_span(told) == Span(3000 * make.MS, 4674_400_000)
    impossible = make.evidence(bend=lambda events: [events[n].update(begun_ns=n, ttft_ms=float("nan")) for n in (3, 4)])
    assert timed_span(impossible) == Span(1130 * make.MS, 1880 * make.MS)
    assert timed_span(make.evidence(b"")) is None


def test_the_baseline_is_what_the_runner_held_before_it_loaded(make: ModuleType) -> None:
    early, late = make.sample(mono_ns=300 * make.MS, rss_bytes=29 * MIB), timed_sample(make)
    # the load event came 755 ms after the probe's clock began, and took 300 ms
    assert first_load_ns(make.evidence()) == 455 * make.MS
    assert baseline_rss(make.evidence(samples=(early, late))) == 29 * MIB
    assert baseline_rss(make.evidence(samples=(late,))) is None
    told = make.evidence(samples=(early,), bend=lambda events: events[1].update(rss_before_bytes=31 * MIB))
    assert baseline_rss(told) == 31 * MIB


@pytest.mark.parametrize("load_ms", [float("nan"), float("inf"), -1.0, 1e308])
def test_a_load_of_no_possible_time_tells_no_baseline(make: ModuleType, load_ms: float) -> None:
    assert baseline_rss(make.evidence(bend=lambda events: events[1].update(load_ms=load_ms))) is None


def test_what_generations_and_loads_leave_is_told_by_slope(make: ModuleType) -> None:
    told, nulls = figures(with_memory(make, [200 * MIB, 203 * MIB, 206 * MIB], [190 * MIB, 195 * MIB]))
    assert (told["growth_bytes"], told["reload_growth_bytes"]) == (3 * MIB, 5 * MIB)
    assert "growth_bytes" not in nulls


def test_without_the_runners_word_growth_is_told_by_samples(make: ModuleType) -> None:
    samples = tuple(make.sample(mono_ns=ms * make.MS, rss_bytes=rss * MIB) for ms, rss in ((1400, 90), (1800, 94)))
    told, nulls = figures(make.evidence(samples=samples))
    assert told["growth_bytes"] == 4 * MIB
    assert nulls["reload_growth_bytes"] == "two loads of known memory are needed"


def test_one_generation_has_no_growth(make: ModuleType) -> None:
    told, nulls = figures(with_memory(make, [200 * MIB]))
    assert told["growth_bytes"] is None
    assert nulls["growth_bytes"] == "two timed generations of known memory are needed"


def test_gpu_memory_has_the_name_of_its_counter(make: ModuleType) -> None:
    evidence = make.evidence(samples=(make.sample(gpu_bytes=7 * MIB), make.sample(gpu_bytes=None)))
    assert evidence.run.sensors is not None
    evidence.run.sensors = replace(evidence.run.sensors, gpu_counter="kgsl")
    told, nulls = figures(evidence)
    assert (told["peak_gpu_bytes"], told["gpu_counter"]) == (7 * MIB, "kgsl")
    assert "peak_gpu_bytes" not in nulls


def test_without_a_counter_it_is_said_which_were_refused(make: ModuleType) -> None:
    evidence = make.evidence()
    assert evidence.run.sensors is not None
    refused = (Denied("/sys/class/kgsl/kgsl/proc", "EACCES"), Denied("/sys/class/thermal/thermal_zone1/temp", "EACCES"))
    evidence.run.sensors = replace(evidence.run.sensors, denied=refused)
    told, nulls = figures(evidence)
    assert told["gpu_counter"] is None
    assert nulls["peak_gpu_bytes"] == "no readable counter on this phone (/sys/class/kgsl/kgsl/proc: EACCES)"


# --- apps that were killed ---


def test_apps_that_were_killed_meanwhile_are_counted_and_named(make: ModuleType) -> None:
    log = KILL % (b"com.example.mail", 900) + KILL % (b"com.example.maps", 901) + KILL % (b"farm_runner", 7)
    evidence = replace(make.evidence(), phone_log=log, phone_log_gap="")
    assert figures(evidence)[0]["killed_apps"] == 2, "7 is our own process"
    [found] = remarks_on_memory(evidence)
    assert (found.code, found.severity) == ("killed_apps", "warning")
    assert found.title == "the phone killed for memory meanwhile: com.example.mail, com.example.maps"
    assert "oom_score_adj 905" in found.evidence


def test_a_phone_whose_log_cannot_tell_has_no_count_rather_than_0(make: ModuleType) -> None:
    told, nulls = figures(replace(make.evidence(), phone_log=KILL % (b"com.a", 9), phone_log_gap="it had rolled over"))
    assert told["killed_apps"] is None
    assert nulls["killed_apps"] == "it had rolled over"
    assert figures(replace(make.evidence(), phone_log_gap=""))[0]["killed_apps"] == 0


# --- leaks ---


def test_memory_that_grows_with_each_generation_is_remarked(make: ModuleType) -> None:
    [found] = remarks_on_memory(with_memory(make, [(150 + 10 * n) * MIB for n in range(5)]))
    assert found.title == "each generation leaves 10.00 MiB more in memory, over 5 of them"
    assert list(remarks_on_memory(with_memory(make, [150 * MIB] * 5))) == []


def test_memory_that_grows_with_each_load_is_remarked(make: ModuleType) -> None:
    [found] = remarks_on_memory(with_memory(make, [150 * MIB] * 2, [(150 + 4 * n) * MIB for n in range(5)]))
    assert found.title == "each load leaves 4.00 MiB more in memory, over 5 of them"


# --- too little of it ---


def scarce(make: ModuleType, kind: str = "", **over: Any) -> Evidence:
    """A burst cell on a phone of 8 GiB of which 300 MiB are available, with a sign of pressure."""
    values: dict[str, Any] = {"mem_available_bytes": 300 * MIB}
    if kind == "swap":
        values["swap_bytes"] = 40 * MIB
    sample = timed_sample(make, **{**values, **over})
    evidence: Evidence = make.evidence(samples=(sample,), majflt=90_000 if kind == "faults" else 12)
    log = KILL % (b"com.example.mail", 900) if kind == "kills" else b""
    return replace(evidence, phone_log=log, phone_log_gap="")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("kills", "the phone killed com.example.mail"),
        ("swap", "40 MiB of the runner were swapped out"),
        ("faults", "90000 pages were read from storage, more than the weights have"),
    ],
)
def test_too_little_memory_with_a_sign_of_pressure_is_refused(make: ModuleType, kind: str, says: str) -> None:
    [objection] = memory_was_free(scarce(make, kind))
    assert objection.reason.code == "low_available_memory"
    assert objection.detail == f"only 300 MiB of 8192 MiB were available, and {says}"
    assert make.codes(scarce(make, kind)) == ["low_available_memory"]


@pytest.mark.parametrize("kind", ["kills", "swap", "faults"])
def test_signs_without_want_are_how_phones_make_room(make: ModuleType, kind: str) -> None:
    assert list(memory_was_free(scarce(make, kind, mem_available_bytes=1400 * MIB))) == []


def test_little_memory_alone_or_before_the_timed_generations_says_nothing(make: ModuleType) -> None:
    assert list(memory_was_free(scarce(make))) == []
    assert list(memory_was_free(scarce(make, "kills", mono_ns=200 * make.MS))) == []
    assert list(memory_was_free(replace(scarce(make, "kills"), ram_bytes=None))) == []


def test_in_a_sustained_cell_want_of_memory_is_the_result(make: ModuleType) -> None:
    plan = make.plan(kind="sustained", duration_s=3.0)
    assert list(memory_was_free(replace(scarce(make, "kills"), plan=plan))) == []
