"""No number without its proof: an honest cell passes, each lie is refused with its own reason and its evidence."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.steady import last_cap_ratio
from harness.bench.text_rules import repeated_loop
from harness.bench.validity import judge
from harness.core.reasons import Reason

Bend = Callable[[list[dict[str, Any]]], object]
HELLO, LOAD, WARMUP, FIRST, SECOND, ANSWER, END = range(7)


def with_all(field: str, value: Any) -> Bend:
    """Sets a field of both timed generations."""
    return lambda told: [told[n].update({field: value}) for n in (FIRST, SECOND)]


def with_one(place: int, **fields: Any) -> Bend:
    return lambda told: told[place].update(fields)


def test_an_honest_cell_meets_no_objection(make: ModuleType) -> None:
    assert judge(make.evidence()) == []


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
@pytest.mark.parametrize("strength", ["engine", "log"])
def test_an_honest_cell_on_a_proven_gpu_meets_no_objection(make: ModuleType, backend: str, strength: str) -> None:
    assert judge(make.evidence(backend=backend, bend=with_one(LOAD, strength=strength))) == []


# --- which backend ran ---


@pytest.mark.parametrize(
    ("line", "evidence"),
    [
        (b"Can't Find type=3 backend, use 0 instead", "Can't Find type=3 backend, use 0 instead"),
        (b"type=3 backend don't Support Low Power, use 0 instead", "type=3 backend don't Support Low Power"),
        (b"OpenCL init error, fallback ...", "OpenCL init error, fallback"),
        (b"Parsing OpenCL symbols error !!! ", "Parsing OpenCL symbols error"),
        (b"CL ERROR CODE : -1001, info:getPlatform", "CL ERROR CODE : -1001"),
        (b"Don't support 3", "Don't support 3"),
    ],
)
@pytest.mark.parametrize("strength", ["engine", "log"])
def test_a_fallback_line_beats_the_runners_own_proof(
    make: ModuleType, line: bytes, evidence: str, strength: str
) -> None:
    found = make.evidence(backend="opencl", bend=with_one(LOAD, strength=strength), stderr=b"chatter\n" + line + b"\n")
    first = judge(found)[0]
    assert first.reason is Reason.BACKEND_FALLBACK
    assert first.detail == "asked for opencl, ran on cpu"
    assert first.evidence.startswith(evidence)


def test_a_fallback_line_among_the_events_counts_too_however_far_to_the_right(make: ModuleType) -> None:
    stdout = b"#" * 5000 + b" Can't Find type=3 backend, use 0 instead\n" + make.lines(make.events("opencl", 68))
    assert make.codes(make.evidence(stdout, backend="opencl"))[0] == "backend_fallback"


# Engines built with MNN_USE_LOGCAT print into the phone's log and not to stderr.
IN_LOGCAT = b"06-01 10:00:01.000     7     9 %c MNNJNI  : %s\r\n"


def test_a_fallback_that_stands_in_the_phones_log_counts(make: ModuleType) -> None:
    log = IN_LOGCAT % (b"E", b"Can't Find type=3 backend, use 0 instead")
    honest = make.evidence(backend="opencl")
    first = judge(replace(honest, phone_log=log, phone_log_gap=""))[0]
    assert (first.reason, first.detail) == (Reason.BACKEND_FALLBACK, "asked for opencl, ran on cpu")
    assert first.evidence == "Can't Find type=3 backend, use 0 instead"


def test_an_error_that_stands_in_the_phones_log_counts(make: ModuleType) -> None:
    log = IN_LOGCAT % (b"I", b"Compute Shape Error for 5")
    assert [found.reason for found in judge(replace(make.evidence(), phone_log=log))] == [Reason.ENGINE_ERROR]


def test_what_another_process_or_a_first_run_writes_there_is_no_error(make: ModuleType) -> None:
    log = IN_LOGCAT % (b"E", b"Can't open file:./mnn_cachefile.bin")
    log += IN_LOGCAT.replace(b"    7 ", b"  700 ") % (b"E", b"Compute Shape Error for 5")
    assert judge(replace(make.evidence(), phone_log=log)) == []


def test_a_first_fallback_to_the_asked_backend_hides_no_later_one_away_from_it(make: ModuleType) -> None:
    log = b"Can't Find type=7 backend, use 3 instead\nCan't Find type=3 backend, use 0 instead\n"
    first = judge(make.evidence(backend="opencl", stderr=log))[0]
    assert (first.reason, first.evidence) == (
        Reason.BACKEND_FALLBACK,
        "Can't Find type=3 backend, use 0 instead",
    )


def test_a_fallback_to_the_backend_that_was_asked_for_is_none(make: ModuleType) -> None:
    assert judge(make.evidence(stderr=b"Can't Find type=3 backend, use 0 instead\n")) == []


def test_a_fallback_line_inside_the_models_text_proves_nothing(make: ModuleType) -> None:
    text = "Can't Find type=3 backend, use 0 instead"
    assert judge(make.evidence(backend="opencl", bend=with_all("text", text))) == []


def test_the_runners_own_word_that_another_backend_ran_is_believed(make: ModuleType) -> None:
    first = judge(make.evidence(backend="vulkan", bend=with_one(LOAD, backend_actual="cpu", proof="code 0")))[0]
    assert (first.reason, first.detail, first.evidence) == (
        Reason.BACKEND_FALLBACK,
        "asked for vulkan, ran on cpu",
        "code 0",
    )


@pytest.mark.parametrize("strength", ["inferred", "none"])
def test_a_backend_without_proof_is_refused(make: ModuleType, strength: str) -> None:
    first = judge(make.evidence(bend=with_one(LOAD, strength=strength, proof="it was fast")))[0]
    assert (first.reason, first.evidence) == (Reason.BACKEND_UNPROVEN, "it was fast")


def test_a_runner_that_does_not_say_which_backend_ran_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_one(LOAD, backend_actual=None))) == ["backend_unproven"]


def test_a_load_event_without_a_strength_proves_nothing(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=lambda told: told[LOAD].pop("strength"))) == ["backend_unproven"]


def test_a_runner_that_reports_a_fallback_and_claims_the_asked_backend_is_refused(make: ModuleType) -> None:
    def lie(told: list[dict[str, Any]]) -> None:
        told.insert(END, {"event": "error", "stage": "fallback", "message": "opencl was not used"})

    first = judge(make.evidence(backend="opencl", bend=lie, exit_code=1))[0]
    assert (first.reason, first.evidence) == (Reason.BACKEND_UNPROVEN, "opencl was not used")


@pytest.mark.parametrize(("field", "told"), [("threads", 2), ("precision", "high"), ("memory", "normal")])
def test_a_figure_for_other_settings_than_the_cells_is_refused(make: ModuleType, field: str, told: object) -> None:
    found = judge(make.evidence(bend=with_one(LOAD, **{field: told})))
    assert [objection.reason for objection in found] == [Reason.HARNESS_ERROR]
    assert f"{field} {told} instead of" in found[0].detail


def test_settings_the_runner_does_not_tell_are_not_held_against_it(make: ModuleType) -> None:
    assert judge(make.evidence(bend=with_one(LOAD, threads=None, precision=None, memory=None))) == []


# --- how many tokens came out ---


def test_missing_repeats_are_refused(make: ModuleType) -> None:
    first = judge(make.evidence(bend=lambda told: told.pop(SECOND)))[0]
    assert (first.reason, first.detail) == (Reason.TOKEN_COUNT_SHORT, "1 of 2 timed generations")


def test_no_timed_generation_at_all_is_refused(make: ModuleType) -> None:
    def none(told: list[dict[str, Any]]) -> None:
        del told[FIRST : SECOND + 1]

    assert make.codes(make.evidence(bend=none)) == ["token_count_short"]


@pytest.mark.parametrize("place", [FIRST, SECOND])
def test_a_generation_that_stopped_early_is_refused(make: ModuleType, place: int) -> None:
    def stop(told: list[dict[str, Any]]) -> None:
        told[place] = make.generation(place - 2, "timed", tokens=5, finish="eos")

    first = judge(make.evidence(bend=stop))[0]
    assert first.reason is Reason.TOKEN_COUNT_SHORT
    assert "5 generated tokens" in first.detail
    assert "finish: eos" in first.detail


@pytest.mark.parametrize(
    "bend",
    [
        pytest.param(with_all("token_ids", [5, 6, 7]), id="nominal count, three tokens"),
        pytest.param(with_all("token_ids", list(range(40))), id="more tokens than claimed"),
        pytest.param(with_all("prompt_tokens", 7), id="shorter prompt"),
        pytest.param(with_all("prompt_tokens", 9), id="longer prompt"),
    ],
)
def test_counts_that_do_not_fit_what_was_asked_or_came_are_refused(make: ModuleType, bend: Bend) -> None:
    assert make.codes(make.evidence(bend=bend)) == ["token_count_short"]


def test_more_tokens_than_asked_are_another_measurement(make: ModuleType) -> None:
    def longer(told: list[dict[str, Any]]) -> None:
        told[FIRST] = make.generation(1, "timed", tokens=33)

    assert make.codes(make.evidence(bend=longer)) == ["token_count_short"]


@pytest.mark.parametrize(
    "bend",
    [
        pytest.param(lambda told: told.insert(SECOND, dict(told[FIRST])), id="one more"),
        pytest.param(lambda told: told.__setitem__(SECOND, dict(told[FIRST])), id="the same twice"),
    ],
)
def test_a_generation_that_was_told_twice_is_not_counted_twice(make: ModuleType, bend: Bend) -> None:
    assert make.codes(make.evidence(bend=bend)) == ["unparsed_output"]


def test_an_unanswered_question_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=lambda told: told.pop(ANSWER))) == ["unparsed_output"]


def test_an_answer_to_another_question_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_one(ANSWER, question="Capital of Chile?"))) == ["unparsed_output"]


# --- times ---


@pytest.mark.parametrize("place", [WARMUP, FIRST, SECOND, ANSWER])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -20.0, 1e-320])
@pytest.mark.parametrize("field", ["prefill_ms", "ttft_ms", "token_ms"])
def test_times_that_are_none_are_refused(make: ModuleType, field: str, value: float, place: int) -> None:
    def lie(told: list[dict[str, Any]]) -> None:
        if field == "token_ms":
            told[place][field] = [value] * len(told[place][field])
        else:
            told[place][field] = value

    assert make.codes(make.evidence(bend=lie))[0] == "implausible_speed"


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_load_time_that_is_none_is_refused(make: ModuleType, value: float) -> None:
    assert make.codes(make.evidence(bend=with_one(LOAD, load_ms=value))) == ["implausible_speed"]


def test_one_negative_time_among_good_ones_is_refused(make: ModuleType) -> None:
    def lie(told: list[dict[str, Any]]) -> None:
        told[SECOND]["token_ms"][7] = -1.0

    first = judge(make.evidence(bend=lie))[0]
    assert first.reason is Reason.IMPLAUSIBLE_SPEED
    assert first.detail.startswith("generation 2 (timed): 1 times are not positive and finite")


def test_a_first_token_before_the_end_of_prefill_is_refused(make: ModuleType) -> None:
    first = judge(make.evidence(bend=with_one(FIRST, prefill_ms=50.0)))[0]
    assert first.reason is Reason.IMPLAUSIBLE_SPEED
    assert "TTFT 42 ms, prefill 50 ms" in first.detail


@pytest.mark.parametrize("count", [0, 30, 32])
def test_as_many_times_as_gaps_between_tokens_are_needed(make: ModuleType, count: int) -> None:
    first = judge(make.evidence(bend=with_one(FIRST, token_ms=[20.0] * count)))[0]
    assert first.reason is Reason.IMPLAUSIBLE_SPEED
    assert f"{count} token times for 32 tokens" in first.detail


def test_generations_that_claim_more_time_than_the_clock_are_refused(make: ModuleType) -> None:
    first = judge(make.evidence(wall_ms=1000.0))[0]
    assert (first.reason, first.detail) == (
        Reason.IMPLAUSIBLE_SPEED,
        "load and generations claim 2400 ms, the whole run took 1000 ms",
    )
    assert judge(make.evidence(wall_ms=2380.0)) == []


def test_a_clock_that_ran_backwards_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(wall_ms=-4000.0))[0] == "implausible_speed"


@pytest.mark.parametrize("place", [WARMUP, ANSWER])
def test_no_time_of_an_untimed_generation_switches_the_clock_check_off(make: ModuleType, place: int) -> None:
    found = make.evidence(bend=with_one(place, ttft_ms=math.nan), wall_ms=100.0)
    assert make.codes(found)[0] == "implausible_speed"


def test_the_eight_million_tokens_a_second_of_a_model_without_weights_are_refused(make: ModuleType) -> None:
    """MNN 3.6.1 printed 8000000.00 for a prefill of 8 tokens: one microsecond."""
    first = judge(make.evidence(bend=lambda told: with_all("prefill_ms", 0.001)(told)))[0]
    assert first.reason is Reason.IMPLAUSIBLE_SPEED
    assert "prefill in 0.001 ms would read 80000 GB of weights" in first.detail


def test_a_million_tokens_a_second_decoded_are_refused(make: ModuleType) -> None:
    first = judge(make.evidence(bend=with_all("token_ms", [0.001] * 31)))[0]
    assert first.reason is Reason.IMPLAUSIBLE_SPEED
    assert "a token in 0.001 ms" in first.detail


def test_a_million_tokens_a_second_are_refused_of_the_smallest_model_too(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_all("token_ms", [0.001] * 31), weight_bytes=500_000)) == [
        "implausible_speed"
    ]


def test_the_same_time_a_token_is_possible_or_not_by_the_weights_it_reads(make: ModuleType) -> None:
    fast = with_all("token_ms", [0.05] * 31)
    assert make.codes(make.evidence(bend=fast, weight_bytes=1_000_000)) == []
    assert make.codes(make.evidence(bend=fast, weight_bytes=80_000_000)) == ["implausible_speed"]


def test_a_long_prompt_cannot_be_computed_in_no_time(make: ModuleType) -> None:
    plan = make.plan(prompt_tokens=[4096])

    def prompt(prefill_ms: float) -> Bend:
        return lambda told: [
            told[n].update(prompt_tokens=4096, prefill_ms=prefill_ms, ttft_ms=prefill_ms + 1) for n in range(2, 5)
        ]

    assert make.codes(make.evidence(the_plan=plan, bend=prompt(300.0))) == []
    assert make.codes(make.evidence(the_plan=plan, bend=prompt(1.0))) == ["implausible_speed"]


@pytest.mark.parametrize("unit", [0.001, 0.1, 0.2])
def test_generations_that_claim_less_time_than_the_probe_saw_are_refused(make: ModuleType, unit: float) -> None:
    """A runner that takes seconds for milliseconds, say, is as fast as it likes by its own account."""

    def lie(told: list[dict[str, Any]]) -> None:
        for event in told[WARMUP : ANSWER + 1]:
            event["token_ms"] = [value * unit for value in event["token_ms"]]

    found = judge(make.evidence(bend=lie, told_ms=3900.0, weight_bytes=1_000))
    assert [o.reason for o in found] == [Reason.IMPLAUSIBLE_SPEED]
    assert "by the probe's clock they took" in found[0].detail


def test_an_engine_may_tune_itself_before_its_first_generation(make: ModuleType) -> None:
    def only_one(told: list[dict[str, Any]]) -> None:
        del told[SECOND : ANSWER + 1]
        del told[WARMUP]

    found = make.evidence(bend=only_one, the_plan=make.plan(repeats=1, ask=[]), wall_ms=60_000.0, told_ms=50_000.0)
    assert judge(found) == []


def test_a_short_run_may_have_spent_its_time_between_generations(make: ModuleType) -> None:
    quick = with_all("token_ms", [0.5] * 31)

    def all_quick(told: list[dict[str, Any]]) -> None:
        quick(told)
        told[WARMUP]["token_ms"] = [0.5] * 31
        told[ANSWER]["token_ms"] = [0.5] * 3

    assert make.codes(make.evidence(bend=all_quick, told_ms=1500.0, weight_bytes=1_000)) == []
    assert make.codes(make.evidence(bend=all_quick, told_ms=3900.0, weight_bytes=1_000)) == ["implausible_speed"]


# --- what came out ---


@pytest.mark.parametrize("text", ["", "   ", "\n\t\r", "\0\0\0", "\ufffd\ufffd", "\u3000\u00a0\u200b", "\x0b\x1f"])
def test_a_text_of_nothing_is_refused(make: ModuleType, text: str) -> None:
    first = judge(make.evidence(bend=with_all("text", text)))[0]
    assert first.reason is Reason.OUTPUT_DEGENERATE
    assert "32 tokens, no text" in first.detail


def test_an_empty_answer_is_refused_however_good_the_timed_text_is(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_one(ANSWER, text=" "))) == ["output_degenerate"]


def test_what_a_warm_up_says_does_not_matter(make: ModuleType) -> None:
    assert judge(make.evidence(bend=with_one(WARMUP, text="", token_ids=[9] * 32))) == []


@pytest.mark.parametrize("loop", [[9], [9, 8], [9, 8, 7]])
def test_a_text_that_is_one_short_loop_is_refused(make: ModuleType, loop: list[int]) -> None:
    ids = ([1, 2, 3, 4] + loop * 32)[:32]
    first = judge(make.evidence(bend=with_one(SECOND, token_ids=ids, text="bear bear bear")))[0]
    assert first.reason is Reason.OUTPUT_DEGENERATE
    assert f"repeats {len(loop)} token(s)" in first.detail
    assert first.evidence == "bear bear bear"


@pytest.mark.parametrize("number", [FIRST, 5])
def test_a_text_of_broken_characters_is_refused_whatever_its_tokens(make: ModuleType, number: int) -> None:
    garbage = "the \ufffd\ufffdka \ufffd und\ufffd\ufffd \ufffdgo \ufffd\ufffd\ufffd of"
    (found,) = judge(make.evidence(bend=with_one(number, text=garbage)))
    assert found.reason is Reason.OUTPUT_DEGENERATE
    assert "characters are unreadable" in found.detail
    assert found.evidence == garbage


@pytest.mark.parametrize(
    "text",
    [
        "巴黎是法国的首都。",
        "عاصمة فرنسا هي باريس.",
        'for (i = 0; i < 3; i++) { print("x"); }',
        "😀 ok 👍🏽",
        '{"a": [1, 2]}',
    ],
)
def test_good_text_in_any_script_is_language(make: ModuleType, text: str) -> None:
    assert make.codes(make.evidence(bend=with_one(FIRST, text=text))) == []


def test_a_loop_is_found_before_the_token_that_ends_the_answer(make: ModuleType) -> None:
    looped = {"token_ids": [5] * 19 + [2], "generated_tokens": 20, "token_ms": [20.0] * 19, "finish": "eos"}
    assert make.codes(make.evidence(bend=with_one(ANSWER, **looped))) == ["output_degenerate"]


def test_a_loop_is_found_in_the_text_when_the_runner_tells_no_tokens(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_all("token_ids", []))) == []
    looped: Bend = lambda told: [told[n].update(token_ids=[], text="ha" * 20) for n in (FIRST, SECOND)]  # noqa: E731
    assert make.codes(make.evidence(bend=looped)) == ["output_degenerate"]


def test_longer_loops_and_short_texts_are_language() -> None:
    assert repeated_loop((1, 2, 3, 4) * 8) == ()
    assert repeated_loop((7,) * 8) == ()
    assert repeated_loop((7,) * 31 + (8,)) == ()
    assert repeated_loop(()) == ()
    assert repeated_loop((7,) * 16) == (7,)


# --- how it ended ---


def died(number: int, **more: Any) -> dict[str, Any]:
    return {"exit_code": None, "signal": number, **more}


@pytest.mark.parametrize(
    ("number", "available", "reason"),
    [
        (signal.SIGSEGV, 3 << 30, Reason.CRASH),
        (signal.SIGABRT, 3 << 30, Reason.CRASH),
        (signal.SIGBUS, 1, Reason.CRASH),
        (signal.SIGILL, 3 << 30, Reason.ILLEGAL_INSTRUCTION),
        (signal.SIGKILL, 100 << 20, Reason.OUT_OF_MEMORY),
        (signal.SIGKILL, 3 << 30, Reason.CRASH),
        (signal.SIGKILL, None, Reason.CRASH),
        (62, 3 << 30, Reason.CRASH),
    ],
)
def test_a_signal_has_its_reason(make: ModuleType, number: int, available: int | None, reason: Reason) -> None:
    low = (make.sample(), make.sample(mem_available_bytes=available))
    if available is None:
        low = low[1:]
    found = judge(make.evidence(b"", stderr=b"last\nwords\n", samples=low, **died(number)))
    assert found[0].reason is reason
    assert "killed by" in found[0].detail
    assert found[0].evidence == "last\nwords"


def test_a_kill_on_a_phone_of_unknown_memory_is_a_crash(make: ModuleType) -> None:
    low = (make.sample(mem_available_bytes=1),)
    assert make.codes(make.evidence(b"", samples=low, ram_bytes=None, **died(9)))[0] == "crash"


def test_a_crash_after_the_last_word_still_is_one(make: ModuleType) -> None:
    assert make.codes(make.evidence(**died(11))) == ["crash"]


def test_a_deadline_is_a_hang_that_names_it(make: ModuleType) -> None:
    found = judge(make.evidence(b"", the_plan=make.plan(cell_timeout_s=90), why="deadline", **died(9)))
    assert (found[0].reason, found[0].detail) == (Reason.HANG, "no end after 90 s")


def test_a_program_that_cannot_be_started_is_a_link_error(make: ModuleType) -> None:
    found = judge(make.evidence(b"", why="spawn_failed", errno="ENOENT", exit_code=None))
    assert (found[0].reason, found[0].detail) == (Reason.LINK_ERROR, "the runner could not be started (ENOENT)")


@pytest.mark.parametrize("why", ["stopped", "hangup", "something new"])
def test_a_run_that_was_ended_from_outside_is_the_labs_fault(make: ModuleType, why: str) -> None:
    assert make.codes(make.evidence(why=why))[0] == "adb_error"


def test_a_run_without_an_end_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(ended=False)) == ["harness_error"]


def test_an_end_with_neither_exit_code_nor_signal_is_refused(make: ModuleType) -> None:
    assert make.codes(make.evidence(exit_code=None)) == ["harness_error"]


def test_a_run_without_a_beginning_has_no_clock_to_be_held_against(make: ModuleType) -> None:
    assert make.codes(make.evidence(begun=False)) == ["harness_error"]


@pytest.mark.parametrize("lost", [1, 3, -1])
def test_an_account_with_a_gap_is_refused(make: ModuleType, lost: int) -> None:
    """The chunk that is missing might be the one in which the engine admits its fallback."""
    found = judge(make.evidence(lost=lost))
    assert [o.reason for o in found] == [Reason.HARNESS_ERROR]
    assert "events arrived" in found[0].detail


LINKER = [
    'CANNOT LINK EXECUTABLE "./toy_runner": library "libtoy.so" not found: needed by main executable',
    'CANNOT LINK EXECUTABLE DEPENDENCIES: library "libtoy.so" not found',
    'CANNOT LINK EXECUTABLE "./toy_runner": cannot locate symbol "toy_open" referenced by "/x/libtoy.so"...',
    'error: "toy_runner": executable\'s TLS segment is underaligned: alignment is 8 (skew 0), needs to be at least 64',
    'dlopen failed: "/x/libtoy.so" program alignment (4096) cannot be smaller than system page size (16384)',
    '"/x/toy_runner" is 32-bit instead of 64-bit',
    '"/x/toy_runner" is for EM_X86_64 (62) instead of EM_AARCH64 (183)',
    '"/x/toy_runner" has bad ELF magic: 76657273',
    '"/x/toy_runner" has unexpected e_type: 2',
    "error: only position independent executables (PIE) are supported.",
    "/system/bin/sh: ./toy_runner: not executable: 64-bit ELF file",
    "./toy_runner: error while loading shared libraries: libtoy.so: cannot open shared object file",
    "./toy_runner: symbol lookup error: ./libtoy.so: undefined symbol: toy_open",
]


@pytest.mark.parametrize("line", LINKER)
@pytest.mark.parametrize("end", [died(signal.SIGABRT), {"exit_code": 1}], ids=["aborts", "exits"])
def test_what_the_linker_says_is_a_link_error(make: ModuleType, line: str, end: dict[str, Any]) -> None:
    """Android's linker aborts, so that a link error looks like a crash to whoever reads signals only."""
    first = judge(make.evidence(b"", stderr=f"WARNING: linker: harmless\n{line}\n".encode(), **end))[0]
    assert (first.reason, first.detail) == (Reason.LINK_ERROR, line)


def test_an_abort_after_the_runner_began_is_a_crash_whatever_the_linker_said(make: ModuleType) -> None:
    stdout = make.lines(make.events()[:2])
    assert make.codes(make.evidence(stdout, stderr=LINKER[0].encode(), **died(6)))[0] == "crash"


@pytest.mark.parametrize(
    ("stage", "reason"),
    [("config", "bad_plan"), ("load", "load_error"), ("prefill", "engine_error"), ("decode", "engine_error")],
)
def test_an_error_event_has_the_reason_of_its_stage(make: ModuleType, stage: str, reason: str) -> None:
    told = [*make.events()[:1], {"event": "error", "stage": stage, "message": "no luck"}, make.events()[-1]]
    found = judge(make.evidence(told, exit_code=1, stderr=b"engine's words\n"))
    assert (found[0].reason.code, found[0].detail) == (reason, f"{stage}: no luck")
    assert found[0].evidence == "engine's words"


@pytest.mark.parametrize("exit_code", [0, 1])
def test_an_error_event_spoils_complete_figures(make: ModuleType, exit_code: int) -> None:
    def late(told: list[dict[str, Any]]) -> None:
        told.insert(END, {"event": "error", "stage": "engine_loop", "message": "teardown"})

    assert make.codes(make.evidence(bend=late, exit_code=exit_code)) == ["engine_error"]


def test_an_error_event_without_a_word_is_an_error(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=lambda told: told.insert(END, {"event": "error"}))) == ["engine_error"]


@pytest.mark.parametrize("code", [1, 2, 134, 255])
def test_an_exit_code_spoils_complete_figures(make: ModuleType, code: int) -> None:
    found = judge(make.evidence(exit_code=code))
    assert [(o.reason, o.detail) for o in found] == [(Reason.ENGINE_ERROR, f"the runner ended with exit code {code}")]


def test_options_the_runner_does_not_know_are_our_fault(make: ModuleType) -> None:
    found = judge(make.evidence(b"", exit_code=2, stderr=b"farm_runner: unrecognized arguments: --x\n"))
    assert (found[0].reason, found[0].evidence) == (
        Reason.HARNESS_ERROR,
        "farm_runner: unrecognized arguments: --x",
    )


def test_a_last_word_that_is_not_ok_spoils_complete_figures(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=with_one(END, status="error"))) == ["engine_error"]


@pytest.mark.parametrize("place", [WARMUP, FIRST, ANSWER])
def test_a_generation_that_ended_in_an_error_spoils_the_rest(make: ModuleType, place: int) -> None:
    assert make.codes(make.evidence(bend=with_one(place, finish="error"))) == ["engine_error"]


def test_exit_0_without_a_word_is_a_silent_exit(make: ModuleType) -> None:
    assert make.codes(make.evidence(b"")) == ["silent_exit"]
    assert make.codes(make.evidence(b" \n\n")) == ["silent_exit"]


@pytest.mark.parametrize(
    "stdout",
    [
        b"hello world\n",
        b"| toy | 80.43 MiB | CPU | 4 | Low | pp8 | 670.69 |\n",
        b'{"event":"unknown"}\n',
        b"\xff\xfe\x00{{{{\n",
        b"[" * 100_000 + b"\n",
        b"null\n[1]\n3\n",
    ],
)
def test_junk_instead_of_events_is_unparsed(make: ModuleType, stdout: bytes) -> None:
    first = judge(make.evidence(stdout))[0]
    assert first.reason is Reason.UNPARSED_OUTPUT
    assert first.evidence.startswith(stdout.decode("utf-8", "replace")[:4])


@pytest.mark.parametrize("missing", ["hello", "load", "end"])
def test_each_missing_frame_event_is_refused(make: ModuleType, missing: str) -> None:
    told = [event for event in make.events() if event["event"] != missing]
    assert "unparsed_output" in make.codes(make.evidence(told))


def test_one_event_that_cannot_be_read_spoils_the_rest(make: ModuleType) -> None:
    stdout = make.lines(make.events()) + b'{"event": "generation", "index": 4, "kind": "ti'
    first = judge(make.evidence(stdout))[0]
    assert (first.reason, first.detail) == (Reason.UNPARSED_OUTPUT, "1 of the runner's events cannot be read")
    assert first.evidence.startswith('{"event": "generation", "index": 4')


def test_harmless_chatter_among_the_events_is_allowed(make: ModuleType) -> None:
    assert judge(make.evidence(b"The device supports: i8sdot:0\n" + make.lines(make.events()))) == []


# --- what the engine said ---


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[Error]: LLM in error state. Status: 4", "engine_error"),
        ("Resize error, can't execute MNN", "engine_error"),
        ("ReadQuanData_c return weightLength is 0, maybe the weight data is invalid", "engine_error"),
        ("Create Runtime Failed because no creator for 3", "engine_error"),
        ("Compute Shape Error for /blocks.0/x", "engine_error"),
        ("[Error]: cannot write mnn_cachefile.bin", "engine_error"),
        ("CL ERROR CODE : -36, info:Raster", "gpu_driver_error"),
        ("OpenCL enqueue write error:-36", "gpu_driver_error"),
    ],
)
def test_an_error_of_the_engine_spoils_complete_figures(make: ModuleType, line: str, reason: str) -> None:
    found = judge(make.evidence(stderr=f"fine\n{line}\n".encode()))
    assert [(o.reason.code, o.detail, o.evidence) for o in found] == [(reason, line, line)]


def test_the_first_search_for_a_cache_is_no_error(make: ModuleType) -> None:
    log = b"Can't open file:work/mnn_cachefile.bin\nLoad Cache file error.\nCan't open file:.tempcache\n"
    assert judge(make.evidence(stderr=log)) == []


def test_the_engines_error_explains_missing_events_better_than_their_absence(make: ModuleType) -> None:
    log = b"[Error]: Load module failed, please check model.\nLLM init error\n"
    assert make.codes(make.evidence(b"", stderr=log)) == ["engine_error", "silent_exit"]
    assert make.codes(make.evidence(log))[:2] == ["engine_error", "unparsed_output"]


# --- the phone meanwhile ---


def test_a_hot_start_is_refused_and_says_how_hot(make: ModuleType) -> None:
    found = judge(make.evidence(started_hot="cpu-0 was at 61.0 °C"))
    assert [(o.reason, o.detail) for o in found] == [(Reason.HOT_START, "cpu-0 was at 61.0 °C")]


@pytest.mark.parametrize(("slept_ms", "codes"), [(0.0, []), (99.0, []), (101.0, ["suspended"])])
def test_sleep_is_the_gap_between_the_two_clocks(make: ModuleType, slept_ms: float, codes: list[str]) -> None:
    assert make.codes(make.evidence(boot_ms=4000.0 + slept_ms)) == codes


@pytest.mark.parametrize(
    ("later", "codes"),
    [
        ((1_800_000, 2_400_000), []),
        ((1_800_000, 2_350_000), []),
        ((1_800_000, 2_300_000), ["throttled"]),
        ((900_000, 2_400_000), ["throttled"]),
        ((2_000_000, 2_600_000), []),
        ((None, 2_400_000), []),
        ((), []),
    ],
)
def test_a_cap_that_is_lower_at_the_end_of_a_burst_cell_is_refused(
    make: ModuleType, later: tuple[int | None, ...], codes: list[str]
) -> None:
    assert make.codes(make.evidence(samples=(make.sample(), make.sample(cap_khz=later)))) == codes


def test_a_cap_that_fell_for_a_moment_without_effect_is_no_objection(make: ModuleType) -> None:
    samples = (make.sample(), make.sample(cap_khz=(900_000, 1_200_000)), make.sample())
    assert make.codes(make.evidence(samples=samples)) == []


def test_a_cap_is_compared_with_its_own_core_at_the_start(make: ModuleType) -> None:
    rows = ((None, None), (1_000, 2_000), (1_000, 1_500), (800, 2_000), (None, None))
    assert last_cap_ratio(make.run(samples=tuple(make.sample(cap_khz=row) for row in rows))) == 0.8
    assert last_cap_ratio(make.run(samples=())) is None
    assert last_cap_ratio(make.run(samples=(make.sample(cap_khz=(None, 0)),))) is None


def test_a_cap_that_falls_over_the_questions_throttled_nothing_that_was_timed(make: ModuleType) -> None:
    fell = (1_800_000, 1_200_000)

    def told_when(told: list[dict[str, Any]]) -> None:
        for event, begun_ms in zip(told[2:6], (400, 1100, 1800, 2500), strict=True):
            event["begun_ns"] = begun_ms * 1_000_000

    def verdict(first_fallen_ms: int) -> list[str]:
        samples = tuple(
            make.sample(mono_ns=ms * 1_000_000, **({"cap_khz": fell} if ms >= first_fallen_ms else {}))
            for ms in range(0, 4000, 100)
        )
        return list(make.codes(make.evidence(bend=told_when, samples=samples)))

    # The last timed token comes 674 ms after 1800.
    assert verdict(2400) == ["throttled"]
    assert verdict(2600) == []


def test_spread_is_judged_only_where_the_plan_sets_a_limit(make: ModuleType) -> None:
    def spread(told: list[dict[str, Any]]) -> None:
        told[SECOND]["token_ms"] = [30.0] * 31

    assert make.codes(make.evidence(bend=spread)) == []
    assert make.codes(make.evidence(bend=spread, the_plan=make.plan(cv_limit=0.5))) == []
    found = judge(make.evidence(bend=spread, the_plan=make.plan(cv_limit=0.1)))
    assert [(o.reason, o.detail) for o in found] == [
        (Reason.NOISY, "decode speed spreads 28.3% over 2 repeats (limit 10.0%)")
    ]


def test_extra_repeats_are_judged_together_and_more_than_the_cap_were_not_asked_for(make: ModuleType) -> None:
    def repeated(told: list[dict[str, Any]]) -> None:
        told[SECOND + 1 : SECOND + 1] = [make.generation(n, "timed") for n in (4, 5)]

    asked = make.plan(cv_limit=0.1, repeats_max=4)
    assert make.codes(make.evidence(bend=repeated, the_plan=asked)) == []
    found = judge(make.evidence(bend=repeated, the_plan=make.plan(cv_limit=0.1, repeats_max=3)))
    assert [(o.reason, o.detail) for o in found] == [
        (Reason.UNPARSED_OUTPUT, "asked were 3 timed generations, told were 1, 2, 4, 5")
    ]


def test_a_sustained_cell_spreads_as_it_likes_and_has_to_last(make: ModuleType) -> None:
    def spread(told: list[dict[str, Any]]) -> None:
        told[SECOND]["token_ms"] = [30.0] * 31

    # The honest run takes 4 s.
    lasting = make.plan(kind="sustained", duration_s=3.5, cv_limit=0.1)
    assert make.codes(make.evidence(bend=spread, the_plan=lasting)) == []
    found = judge(make.evidence(the_plan=make.plan(kind="sustained", duration_s=60.0)))
    assert [(o.reason, o.detail) for o in found] == [
        (Reason.TOKEN_COUNT_SHORT, "2 timed generations in 4.0 s, asked were 60 s of them")
    ]


def held(before: int | None, after: int | None) -> Callable[[list[dict[str, Any]]], None]:
    return lambda told: told[1].update(rss_before_bytes=before, rss_bytes=after)


def test_weights_that_nobody_holds_after_loading_were_not_loaded(make: ModuleType) -> None:
    (found,) = judge(make.evidence(bend=held(30_000_000, 65_000_000)))
    assert (found.reason, found.detail) == (
        Reason.LOAD_ERROR, "the runner holds 35000000 bytes more after loading 80000000 bytes of weights",
    )  # fmt: skip
    assert make.codes(make.evidence(bend=held(30_000_000, 71_000_000))) == []


def test_weights_in_a_mapped_file_on_a_gpu_or_untold_are_not_looked_for(make: ModuleType) -> None:
    assert make.codes(make.evidence(bend=held(None, 65_000_000))) == []
    assert make.codes(make.evidence(backend="vulkan", bend=held(30_000_000, 65_000_000))) == []
    mapped = make.plan(engine={"use_mmap": True})
    assert make.codes(make.evidence(bend=held(30_000_000, 65_000_000), the_plan=mapped)) == []
    assert make.codes(make.evidence(bend=held(30_000_000, 65_000_000), weight_bytes=1 << 20)) == []


def test_a_generation_at_another_depth_than_asked_is_no_figure(make: ModuleType) -> None:
    deep = make.plan(context_tokens=[1024])
    assert make.codes(make.evidence(the_plan=deep)) == ["token_count_short"]

    def told_deep(told: list[dict[str, Any]]) -> None:
        for event in told:
            if event.get("kind") in ("warmup", "timed"):
                event["context_tokens"] = 1024

    assert make.codes(make.evidence(bend=told_deep, the_plan=deep)) == []


def test_times_of_nothing_do_not_break_the_spread(make: ModuleType) -> None:
    found = make.evidence(bend=with_one(FIRST, prefill_ms=0.0), the_plan=make.plan(cv_limit=0.1))
    assert make.codes(found) == ["implausible_speed"]


def test_what_later_rules_found_is_kept_beside_the_verdict(make: ModuleType) -> None:
    def lies(told: list[dict[str, Any]]) -> None:
        told[LOAD]["backend_actual"] = "cpu"
        with_all("text", " ")(told)

    found = make.evidence(backend="opencl", bend=lies, boot_ms=9000.0, stderr=b"LLM init error\n")
    assert make.codes(found) == ["backend_fallback", "engine_error", "output_degenerate", "suspended"]
