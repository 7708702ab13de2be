"""llm_bench as a runner: its command, the runs that show the text, and rows that are not what was asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.plan.matrix import cells_of
from harness.runners.base import MAIN
from harness.runners.events import RunnerLog
from harness.runners.llm_bench_runner import LlmBench

ASK = {"question": "Capital of Peru?", "expect": "lima", "max_tokens": 12}


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("tool_runs.py"))


def test_each_timed_generation_is_a_row_of_its_own(tools: ModuleType, tmp_path: Path) -> None:
    main, _ = LlmBench().steps(tools.order("llm_bench", tmp_path / "toy"))
    command = "/b/llm_bench -m /w/model/config.json -a cpu -t 2 -c 2 --memory 2 -p 0 -n 0 -rep 1 -pg 8,4 -pg 8,4"
    assert " ".join(main.argv) == command
    assert main.env == {"LD_LIBRARY_PATH": "/b"}
    assert main.links["model/llm.mnn.weight"] == "/m/llm.mnn.weight"
    assert "tmp/.keep" in main.files
    assert not main.speaks, "its lines leave at its end"
    settings = json.loads(main.files["model/config.json"])
    assert (settings["sampler_type"], settings["banned_tokens"]) == ("greedy", [2, 0])


@pytest.mark.parametrize(
    ("over", "options"),
    [
        ({"backends": ["opencl"]}, "-a opencl -t 68"),
        ({"precision": ["high"], "memory": ["normal"]}, "-c 1 --memory 0"),
        ({"precision": ["normal"], "memory": ["high"]}, "-c 0 --memory 1"),
        ({"engine": {"use_mmap": True}}, "-mmp 1"),
        ({"engine": {"attention_mode": 10}}, "-fa 1 -qa 2"),
        ({"engine": {"attention_mode": 1}}, "-fa 0 -qa 1"),
        ({"engine": {"dynamic_option": 2}}, "-dyo 2"),
        ({"engine": {"power": "high"}}, "--power 1"),
        ({"engine": {"cpu_sme2_neon_division_ratio": 33, "cpu_sme_core_num": 1}}, "-mr 33 -scn 1"),
        ({"settings": {"attention_mode": 9}}, "-fa 1 -qa 1"),
    ],
)
def test_what_it_overrides_is_given_by_its_options(
    tools: ModuleType, tmp_path: Path, over: dict[str, Any], options: str
) -> None:
    main = LlmBench().steps(tools.order("llm_bench", tmp_path / "toy", **over))[0]
    assert options in " ".join(main.argv)


def test_what_is_as_it_would_be_anyway_is_not_given(tools: ModuleType, tmp_path: Path) -> None:
    over = {"engine": {"use_mmap": False, "attention_mode": 8, "power": "normal", "chunk": 64}}
    main = LlmBench().steps(tools.order("llm_bench", tmp_path / "toy", **over))[0]
    assert main.argv[-4:] == ("-pg", "8,4", "-pg", "8,4")
    assert json.loads(main.files["model/config.json"])["chunk"] == 64


def test_the_text_is_shown_by_llm_demo(tools: ModuleType, tmp_path: Path) -> None:
    _, text, answer = LlmBench().steps(tools.order("llm_bench", tmp_path / "toy", ask=[ASK]))
    assert text.argv == ("/b/llm_demo", "/w/text/model/config.json", "/w/text/prompts.txt", "4")
    assert text.files["prompts.txt"] == b"A phone lay\n"
    assert (answer.name, answer.argv[-1]) == ("answer-1", "12")


def test_beyond_300_tokens_all_runs_have_the_option_that_it_sets(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_bench", tmp_path / "toy", prompt_tokens=[301])
    text = LlmBench().steps(order)[1]
    assert json.loads(text.files["model/config.json"])["dynamic_option"] == 8
    told = LlmBench().read(order, {MAIN: tools.bench(*[tools.row(test="pp301+tg4")] * 2)})
    assert "beyond 300 prompt tokens it sets dynamic_option 8" in told.definition
    assert len(told.definition) < 500


def test_without_llm_demo_our_runner_shows_the_text(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_bench", tmp_path / "toy", ("farm_runner",), ask=[ASK])
    _, text = LlmBench().steps(order)
    command = " ".join(text.argv)
    assert command.startswith("/b/farm_runner --model /m --backend cpu --threads 2")
    assert "--work-dir /w/text --prompt-text A phone lay --prompt-tokens 8" in command
    assert "--warmups 0 --require-backend --repeats 1" in command
    assert '--ask {"text": "Capital of Peru?", "tokens": 12}' in command


@pytest.mark.parametrize(
    ("over", "reason", "says"),
    [
        ({"backends": ["vulkan"]}, Reason.BACKEND_NOT_BUILT, "takes no Vulkan"),
        ({"kind": "sustained", "duration_s": 60.0}, Reason.BAD_PLAN, "a fixed number of times"),
        ({"context_tokens": [16]}, Reason.BAD_PLAN, "no history"),
        ({"load_rounds": 2}, Reason.BAD_PLAN, "loads for each row anew"),
        ({"engine": {"dynamic_option": 8}}, Reason.BAD_PLAN, "sets dynamic_option to 0, not 8"),
        ({"engine": {"dynamic_option": 1}, "prompt_tokens": [512]}, Reason.BAD_PLAN, "to 9, not 1"),
        ({"ask": [{**ASK, "question": "One?\nTwo?"}]}, Reason.BAD_PLAN, "questions of one line"),
    ],
)
def test_what_it_cannot_do_is_said_before(tools: ModuleType, over: dict[str, Any], reason: Reason, says: str) -> None:
    plan = tools.plan(**over)
    refused = LlmBench().cannot(tools.bundle("llm_bench"), cells_of(plan)[0], plan)
    assert refused is not None
    assert refused[0] is reason
    assert says in refused[1]


def test_a_bundle_that_can_show_no_text_is_refused(tools: ModuleType) -> None:
    plan = tools.plan()
    refused = LlmBench().cannot(tools.bundle("llm_bench", ("llm_bench",)), cells_of(plan)[0], plan)
    assert refused is not None
    assert refused[0] is Reason.BUNDLE_MISMATCH
    assert "again with llm_demo or farm_runner" in refused[1]
    assert LlmBench().cannot(tools.bundle("llm_bench", ("farm_runner",)), cells_of(plan)[0], plan) is None


def read(tools: ModuleType, folder: Path, main: Any, **over: Any) -> RunnerLog:
    runs = {MAIN: main, "text": tools.shown()}
    return LlmBench().read(tools.order("llm_bench", folder / "toy", **over), runs)


def test_rows_are_samples_and_the_text_is_a_check(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.bench(tools.row(), tools.row("500.00 ± 0.00<br>40.00 ± 0.00")))
    assert [(one.index, one.kind, one.prefill_ms, one.decode_ms, one.decode_steps) for one in told.generations] == [
        (0, "timed", 20.0, 80.0, 4),
        (1, "timed", 16.0, 100.0, 4),
        (2, "check", None, None, None),
    ]
    check = told.generations[2]
    assert (check.text, check.prompt_tokens, check.generated_tokens) == ("The river ran east", 8, 4)
    assert told.end is not None
    assert told.load is not None
    assert (told.load.backend_actual, told.load.strength, told.load.threads, told.load.precision) == (
        "cpu",
        "log",
        2,
        "low",
    )
    assert (told.errors, told.unread) == ((), ())


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"model": "other"}, "model other instead of model"),
        ({"backend": "OPENCL"}, "backend opencl instead of cpu"),
        ({"threads": "4"}, "threads 4 instead of 2"),
        ({"precision": "High"}, "precision high instead of low"),
        ({"size": "17179869184.00 GiB"}, "no weight file"),
        ({"test": "pp9+tg4"}, "test pp9+tg4 instead of pp8+tg4"),
    ],
)
def test_a_row_of_something_else_is_an_error(
    tools: ModuleType, tmp_path: Path, over: dict[str, str], says: str
) -> None:
    told = read(tools, tmp_path, tools.bench(tools.row(), tools.row(**over)))
    assert [error.stage for error in told.errors] == ["output"]
    assert says in told.errors[0].message
    assert told.end is None


def test_a_row_that_is_missing_is_an_error(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.bench(tools.row()))
    assert [error.message for error in told.errors] == ["1 rows, asked were 2"]
    assert told.end is None


def test_a_line_that_is_not_understood_is_unread(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.bench(tools.row(), tools.row("about 400<br>some 50")))
    assert told.unread == (tools.row("about 400<br>some 50"),)
    assert told.end is None


def test_speeds_that_are_no_numbers_become_no_times(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.bench(tools.row("nan ± nan<br>inf ± 0.00"), tools.row("0.00 ± 0.00<br>1 ± 0")))
    one, other = told.generations[:2]
    assert math.isnan(one.prefill_ms or 0.0)
    assert (one.decode_ms, other.prefill_ms) == (0.0, math.inf)


def test_a_text_that_is_not_shown_is_an_error(tools: ModuleType, tmp_path: Path) -> None:
    rows = tools.bench(tools.row(), tools.row())
    told = LlmBench().read(tools.order("llm_bench", tmp_path / "toy"), {MAIN: rows})
    assert [(error.stage, error.message) for error in told.errors] == [
        ("text", "the run that shows the text did not take place")
    ]


def test_words_of_the_other_runs_count_but_for_what_proves_their_own_backend(tools: ModuleType, tmp_path: Path) -> None:
    chunks = tools.streamed([tools.TEXT])
    said = b"Can't Find type=3 backend, use 0 instead\nUpdate cache to tmp/mnn_cachefile.bin, size = 900\n"
    shown = tools.run([*chunks, (900.0, tools.summary(8, 4) + said)])
    runs = {MAIN: tools.bench(*[tools.row(backend="OPENCL", threads="68")] * 2), "text": shown}
    told = LlmBench().read(tools.order("llm_bench", tmp_path / "toy", backends=["opencl"]), runs)
    assert "Can't Find type=3 backend, use 0 instead" in told.junk
    assert not any("Update cache" in line for line in told.junk)


def test_the_words_of_a_build_that_prints_to_the_phones_log_are_read_from_there(
    tools: ModuleType, tmp_path: Path
) -> None:
    order = tools.order("llm_bench", tmp_path / "toy")
    runs = {MAIN: tools.bench(tools.row(), tools.row(), said=""), "text": tools.shown()}
    bare = LlmBench().read(order, runs)
    told = LlmBench().read(order, runs, {MAIN: b"The device supports: i8sdot:1, fp16:1, i8mm: 0, sve2: 0, sme2: 0"})
    assert bare.load is not None
    assert told.load is not None
    assert (bare.load.strength, told.load.strength) == ("inferred", "log")
    assert b"I/MNNJNI( 1): The device supports" in told.tool


def test_our_runner_shows_text_and_answers(tools: ModuleType, tmp_path: Path) -> None:
    times = {"prefill_ms": 9.0, "ttft_ms": 9.5, "token_ms": [4.0], "generated_tokens": 2}
    said = [
        {"event": "generation", "index": 0, "kind": "timed", "text": "East.", "prompt_tokens": 8, "finish": "length"},
        {"event": "generation", "index": 1, "kind": "answer", "text": "Lima.", "prompt_tokens": 30, "finish": "eos"},
    ]
    stdout = b"".join(json.dumps({**one, **times}).encode() + b"\n" for one in said)
    runs = {MAIN: tools.bench(tools.row(), tools.row()), "text": tools.run([(5.0, stdout)])}
    order = tools.order("llm_bench", tmp_path / "toy", ("farm_runner",), ask=[ASK])
    told = LlmBench().read(order, runs)
    assert [(one.index, one.kind, one.text, one.times_ms) for one in told.generations[2:]] == [
        (2, "check", "East.", ()),
        (3, "answer", "Lima.", ()),
    ]
    assert told.errors == ()
    runs["text"] = tools.run([(5.0, stdout.splitlines(keepends=True)[0])])
    assert [error.message for error in LlmBench().read(order, runs).errors] == ["farm_runner told 1 texts"]
