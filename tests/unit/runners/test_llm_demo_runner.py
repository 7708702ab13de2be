"""llm_demo as a runner: what it is given, and what its stream, its summary and the phone's log tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.cold import cold_order
from harness.core.reasons import Reason
from harness.plan.matrix import cells_of
from harness.runners.base import MAIN
from harness.runners.events import RunnerLog
from harness.runners.llm_demo_runner import LlmDemo

ASK = {"question": "Capital of Peru?", "expect": "lima", "max_tokens": 12}


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("tool_runs.py"))


def test_the_timed_run_has_a_folder_of_its_own_that_links_to_the_model(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_demo", tmp_path / "toy", settings={"system_prompt": "Be kind.", "sampler_type": "mixed"})
    [step] = LlmDemo().steps(order)
    assert step.argv == ("/b/llm_demo", "/w/model/config.json", "/w/prompts.txt", "4")
    assert step.links == {"model/llm.mnn": "/m/llm.mnn", "model/llm.mnn.weight": "/m/llm.mnn.weight"}
    assert step.files["prompts.txt"] == b"A phone lay\n" * 3
    assert step.env == {"LD_LIBRARY_PATH": "/b"}
    assert json.loads(step.files["model/config.json"]) == {
        "llm_model": "llm.mnn",
        "system_prompt": "Be kind.",
        "backend_type": "cpu",
        "thread_num": 2,
        "precision": "low",
        "memory": "low",
        "sampler_type": "greedy",
        "async": False,
        "reuse_kv": False,
        "speculative_type": "",
        "use_template": False,
        "banned_tokens": [2, 0],
    }


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"backends": ["opencl"]}, {"backend_type": "opencl", "thread_num": 68}),
        ({"backends": ["vulkan"]}, {"backend_type": "vulkan", "thread_num": 4}),
        ({"precision": ["high"], "memory": ["normal"]}, {"precision": "high", "memory": "normal"}),
        ({"engine": {"attention_mode": 10, "use_mmap": True}}, {"attention_mode": 10, "use_mmap": True}),
    ],
)
def test_the_settings_are_the_cells(tools: ModuleType, tmp_path: Path, over: Any, told: dict[str, Any]) -> None:
    [step] = LlmDemo().steps(tools.order("llm_demo", tmp_path / "toy", **over))
    assert told.items() <= json.loads(step.files["model/config.json"]).items()


def test_each_question_is_a_run_of_its_own_with_the_template_and_its_own_limit(
    tools: ModuleType, tmp_path: Path
) -> None:
    second = {"question": "And of Chile?", "expect": "santiago", "max_tokens": 5}
    _, one, two = LlmDemo().steps(tools.order("llm_demo", tmp_path / "toy", ask=[ASK, second]))
    assert one.argv == ("/b/llm_demo", "/w/answer-1/model/config.json", "/w/answer-1/prompts.txt", "12")
    assert (two.name, two.argv[-1], two.files["prompts.txt"]) == ("answer-2", "5", b"And of Chile?\n")
    settings = json.loads(one.files["model/config.json"])
    assert (settings["use_template"], settings["banned_tokens"]) == (True, [])


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"kind": "sustained", "duration_s": 60.0}, "a fixed number of times"),
        ({"context_tokens": [16]}, "no history"),
        ({"load_rounds": 2}, "loads once"),
        ({"ask": [{**ASK, "question": "One?\nTwo?"}]}, "questions of one line, not 'One?\\nTwo?'"),
        ({"ask": [{**ASK, "question": "# of legs?"}]}, "skips lines that begin with #"),
    ],
)
def test_what_it_cannot_do_is_said_before(tools: ModuleType, over: dict[str, Any], says: str) -> None:
    plan = tools.plan(**over)
    refused = LlmDemo().cannot(tools.bundle("llm_demo"), cells_of(plan)[0], plan)
    assert refused is not None
    assert refused[0] is Reason.BAD_PLAN
    assert says in refused[1]


def test_it_measures_ordinary_cells(tools: ModuleType) -> None:
    plan = tools.plan(ask=[ASK], backends=["vulkan"])
    assert LlmDemo().cannot(tools.bundle("llm_demo"), cells_of(plan)[0], plan) is None


def read(tools: ModuleType, folder: Path, run: Any, **over: Any) -> RunnerLog:
    return LlmDemo().read(tools.order("llm_demo", folder / "toy", **over), {MAIN: run})


def test_the_stream_gives_token_times_and_the_first_ttft(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.demo([tools.TEXT] * 3, 8))
    assert [(one.index, one.kind, one.text) for one in told.generations] == [
        (0, "warmup", "The river ran east"),
        (1, "timed", "The river ran east"),
        (2, "timed", "The river ran east"),
    ]
    assert all(one.token_ms == (20.0, 20.0, 20.0) for one in told.generations)
    assert [one.ttft_ms for one in told.generations] == [100.0, None, None]
    assert [(one.prompt_tokens, one.generated_tokens) for one in told.generations] == [(8, 4)] * 3
    first = told.generations[0]
    assert (first.begun_ns, first.first_token_ns) == (tools.BEGUN_NS + 500 * tools.MS, tools.BEGUN_NS + 600 * tools.MS)


def test_the_summarys_means_stand_once(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.demo([tools.TEXT] * 3, 8))
    assert [one.prefill_ms for one in told.generations] == [None, None, 20.0]
    assert [one.engine_decode_ms for one in told.generations] == [None, None, 80.0]
    assert [one.decode_steps for one in told.generations] == [None, None, None]
    assert "by the moments" in told.definition
    assert "mean over all 3 generations" in told.definition


def test_without_moments_decode_is_the_summarys_mean_once(tools: ModuleType, tmp_path: Path) -> None:
    text = b"".join(tools.TEXT * 3)
    told = read(tools, tmp_path, tools.run([*tools.streamed([[text]]), (900.0, tools.summary(24, 12))]))
    assert [one.token_ms for one in told.generations] == [(), (), ()]
    assert [(one.decode_ms, one.decode_steps) for one in told.generations] == [(None, None), (None, None), (80.0, 4)]
    assert [one.text for one in told.generations] == ["The river ran east"] * 3
    assert "own mean over all 3 generations, warm-ups too" in told.definition


def test_tokens_that_came_together_leave_the_time_between_the_first_and_the_last(
    tools: ModuleType, tmp_path: Path
) -> None:
    chunks = tools.streamed([tools.TEXT] * 3)
    chunks[7:9] = [(chunks[8][0], chunks[7][1] + chunks[8][1])]
    told = read(tools, tmp_path, tools.run([*chunks, (1000.0, tools.summary(24, 12))]))
    assert [len(one.token_ms) for one in told.generations] == [3, 0, 3]
    assert (told.generations[1].decode_ms, told.generations[1].decode_steps) == (60.0, 3)


def test_hello_load_and_end_are_told(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.demo([tools.TEXT] * 3, 8))
    assert told.hello is not None
    assert (told.hello.runner, told.hello.engine, told.hello.engine_version, told.hello.pid) == (
        "llm_demo",
        "MNN",
        "3.6.1",
        7,
    )
    assert told.load is not None
    assert (told.load.load_ms, told.load.tuning_ms) == (310.5, 42.25)
    assert (told.load.backend_actual, told.load.strength) == ("cpu", "log")
    assert told.load.proof.startswith("The device supports: i8sdot:1")
    assert told.end is not None
    assert told.end.status == "ok"


def test_a_gpu_is_not_proven_by_what_was_asked_for(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.demo([tools.TEXT] * 3, 8), backends=["opencl"])
    assert told.load is not None
    assert (told.load.backend_requested, told.load.backend_actual, told.load.strength) == ("opencl", None, "none")


def test_a_build_that_prints_to_the_phones_log_is_read_from_there(tools: ModuleType, tmp_path: Path) -> None:
    whole = tools.demo([tools.TEXT] * 3, 8)
    words = tools.HEAD[1].replace(b"prompt file is /w/prompts.txt\n", b"") + tools.summary(24, 12)
    chunks = tools.streamed([tools.TEXT] * 3)
    chunks[1] = (chunks[1][0], b"prompt file is /w/prompts.txt\n")
    order = tools.order("llm_demo", tmp_path / "toy")
    told = LlmDemo().read(order, {MAIN: tools.run(chunks)}, {MAIN: words})
    direct = LlmDemo().read(order, {MAIN: whole})
    assert told.generations == direct.generations
    assert (told.loads, told.end) == (direct.loads, direct.end)
    assert LlmDemo().read(order, {MAIN: tools.run(chunks)}).end is None


def test_answers_are_told_without_the_line_end_that_a_stop_token_writes(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_demo", tmp_path / "toy", ask=[ASK, {**ASK, "max_tokens": 2}])
    runs = {
        MAIN: tools.demo([tools.TEXT] * 3, 8),
        "answer-1": tools.demo([[b"Lima", b".", b"\n"]], 30),
        "answer-2": tools.demo([[b"Lima", b"\n"]], 30),
    }
    answers = LlmDemo().read(order, runs).of_kind("answer")
    assert [(one.text, one.finish, one.prompt_tokens, one.generated_tokens) for one in answers] == [
        ("Lima.", "eos", 30, 3),
        ("Lima\n", "length", 30, 2),
    ]
    assert [one.question for one in answers] == ["Capital of Peru?"] * 2


def test_a_run_for_an_answer_that_fails_is_an_error(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_demo", tmp_path / "toy", ask=[ASK])
    main = tools.demo([tools.TEXT] * 3, 8)
    for run, says in (
        (None, "did not take place"),
        (tools.run([(5.0, b"LLM init error\n")]), "gave no summary; its last word was 'LLM init error'"),
        (tools.run([(5.0, b"Segv\n")], exit_code=139), "ended badly (exit, exit code 139): Segv"),
    ):
        runs = {MAIN: main} if run is None else {MAIN: main, "answer-1": run}
        [error] = LlmDemo().read(order, runs).errors
        assert error.stage == "answer-1"
        assert says in error.message


def test_too_few_tokens_are_told_as_they_came(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.demo([tools.TEXT, tools.TEXT, tools.TEXT[:2]], 8))
    assert [one.generated_tokens for one in told.generations] == [10, 10, 10]
    assert {one.finish for one in told.generations} == {"eos"}


def test_a_text_that_cannot_be_divided_is_unread(tools: ModuleType, tmp_path: Path) -> None:
    chunks = tools.streamed([[b"The river ran east the river ran west the river"]])
    told = read(tools, tmp_path, tools.run([*chunks, (900.0, tools.summary(24, 12))]))
    assert "cannot be divided into 3 answers" in told.unread[0]


def test_no_summary_is_no_end(tools: ModuleType, tmp_path: Path) -> None:
    told = read(tools, tmp_path, tools.run(tools.streamed([tools.TEXT] * 3)))
    assert (told.end, told.generations) == (None, ())
    assert read(tools, tmp_path, tools.run([])).hello is None


def test_the_first_use_has_its_ttft(tools: ModuleType, tmp_path: Path) -> None:
    once = cold_order(tools.order("llm_demo", tmp_path / "toy", ask=[ASK]))
    [step] = LlmDemo().steps(once)
    assert (step.files["prompts.txt"], step.argv[-1]) == (b"A phone lay\n", "2")
    told = LlmDemo().read(once, {MAIN: tools.demo([tools.TEXT[:2]], 8)})
    [only] = told.generations
    assert (only.kind, only.ttft_ms) == ("warmup", 100.0)
    assert told.end is not None


def test_a_bundle_of_one_program_is_run_too(tools: ModuleType, tmp_path: Path) -> None:
    order = tools.order("llm_demo", tmp_path / "toy")
    manifest = order.bundle.manifest.model_copy(update={"variants": [], "programs": {}, "program": "my_demo"})
    [step] = LlmDemo().steps(replace(order, bundle=replace(order.bundle, manifest=manifest)))
    assert step.argv[0] == "/b/my_demo"
