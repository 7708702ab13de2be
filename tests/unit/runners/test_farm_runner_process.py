"""Runners as programs: what each of them does, and what those do that run real MNN, with the tiny model."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.runners.events import parse_runner_output

CAPITAL = "What is the capital of France?"
OPTIONS = ("--prompt-tokens", "37", "--generate-tokens", "24", "--warmups", "1", "--repeats", "2")
COUNTING = json.dumps({"text": "Count from one to seven.", "tokens": 5})
GOOD = (*OPTIONS, "--ask", CAPITAL, "--ask", COUNTING, "--engine", "max_new_tokens=7", "--engine", "use_mmap=false")


@pytest.fixture(scope="module")
def good_runs(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Any]:
    """Run a runner well, once for all tests."""
    return cache(lambda runner: runner.run(tiny, tmp_path_factory.mktemp("good"), *GOOD))


@pytest.fixture
def good(runner: Any, good_runs: Callable[[Any], Any]) -> Any:
    return good_runs(runner)


@pytest.fixture
def with_mnn(mnn_runner: Any, good_runs: Callable[[Any], Any]) -> Any:
    return good_runs(mnn_runner)


@pytest.fixture(scope="module")
def precise(mnn_runner: Any, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    options = (*OPTIONS, "--ask", CAPITAL, "--precision", "high", "--memory", "high")
    return mnn_runner.run(tiny, tmp_path_factory.mktemp("precise"), *options)


@pytest.fixture
def broken(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "broken")


def test_the_runner_in_cpp_is_held_to_all_of_this() -> None:
    if not os.environ.get("MNN_FARM_SDK"):
        pytest.skip("MNN_FARM_SDK names no SDK of MNN: farm_runner in C++ is not built")


def test_a_good_run_tells_its_events_in_order(good: Any) -> None:
    kinds = [(event["event"], event.get("kind")) for event in good.events]
    assert kinds == [
        ("hello", None),
        ("load", None),
        ("generation", "warmup"),
        ("generation", "timed"),
        ("generation", "timed"),
        ("generation", "answer"),
        ("generation", "answer"),
        ("end", None),
    ]
    assert good.exit_code == 0
    assert [event["index"] for event in good.of("generation")] == [0, 1, 2, 3, 4]
    assert good.events[-1]["status"] == "ok"


def test_the_harness_reads_every_line_of_it(good: Any) -> None:
    log = parse_runner_output(good.stdout)
    assert log.junk == ()
    assert len(log.of_kind("timed")) == 2
    assert log.end is not None


def test_hello_names_runner_and_process(good: Any, runner: Any) -> None:
    hello = good.events[0]
    assert hello["runner"] == runner.name
    assert hello["abi"] in ("x86_64", "arm64-v8a")
    assert hello["rss_bytes"] > 0
    assert hello["pid"] > 1


def test_hello_names_the_engine_and_its_version(with_mnn: Any) -> None:
    assert with_mnn.events[0]["engine"] == "MNN"
    assert with_mnn.events[0]["engine_version"].count(".") == 2


def test_the_first_tokens_logits_are_told_largest_first(good: Any) -> None:
    stops = set(good.of("load")[0]["stop_tokens"])
    for made in good.of("generation"):
        ids, logits = zip(*made["first_logits"], strict=True)
        assert len(set(ids)) == 10
        assert list(logits) == sorted(logits, reverse=True)
        may = [n for n in ids if n not in stops or made["kind"] == "answer"]
        assert may[0] == made["token_ids"][0]


def test_margins_name_the_nearest_rivals_of_every_token(runner: Any, tiny: Path, tmp_path: Path) -> None:
    options = ("--margins", "--prompt-tokens", "9", "--generate-tokens", "5", "--warmups", "0", "--repeats", "1")
    ran = runner.run(tiny, tmp_path, *options)
    [made] = ran.of("generation")
    assert [len(rivals) for rivals in made["margins"]] == [6] * 5
    for token, rivals in zip(made["token_ids"], made["margins"], strict=True):
        gaps = [gap for _, gap in rivals]
        assert token not in [rival for rival, _ in rivals]
        assert gaps == sorted(gaps)
        assert gaps[0] >= 0
    assert ran.events[-1]["engine_loop"] is None


def test_timed_generations_have_exactly_the_tokens_asked_for(good: Any) -> None:
    for timed in [*good.of("generation", kind="warmup"), *good.of("generation", kind="timed")]:
        assert (timed["prompt_tokens"], timed["generated_tokens"], timed["finish"]) == (37, 24, "length")
        assert len(timed["token_ids"]) == 24
        assert len(timed["token_ms"]) == 23


def test_no_stop_token_comes_out_of_a_timed_generation(good: Any) -> None:
    stops = set(good.of("load")[0]["stop_tokens"])
    assert stops
    for timed in good.of("generation", kind="timed"):
        assert not stops & set(timed["token_ids"])


def test_first_token_latency_includes_prefill_and_choosing(good: Any) -> None:
    for made in good.of("generation"):
        assert made["ttft_ms"] >= made["prefill_ms"] > 0
        assert all(token_ms > 0 for token_ms in made["token_ms"])
        assert 0 < made["sample_ms"] < made["ttft_ms"] + sum(made["token_ms"])


def test_equal_prompts_give_equal_tokens_also_in_another_process(
    good: Any, runner: Any, tiny: Path, tmp_path: Path
) -> None:
    again = runner.run(tiny, tmp_path, *OPTIONS)
    ids = {tuple(made["token_ids"]) for ran in (good, again) for made in ran.of("generation", kind="timed")}
    assert len(ids) == 1
    assert len(set(ids.pop())) > 8


def test_the_text_belongs_to_the_prompt_and_not_to_what_came_before(with_mnn: Any, precise: Any) -> None:
    for ran in (with_mnn, precise):
        answer = ran.of("generation", question=CAPITAL)[0]
        assert answer["text"] == "The capital of France is Paris."
        assert answer["finish"] == "eos"
        assert answer["tokenize_ms"] > 0


def test_a_question_may_bring_its_own_limit(good: Any) -> None:
    counted = good.of("generation", question="Count from one to seven.")[0]
    assert (counted["generated_tokens"], counted["finish"]) == (5, "length")


def test_the_engine_counts_the_same_tokens_in_its_own_loop(with_mnn: Any) -> None:
    loop = with_mnn.events[-1]["engine_loop"]
    assert (loop["prompt_tokens"], loop["generated_tokens"]) == (37, 24)
    assert loop["token_ids"] == with_mnn.of("generation", kind="timed")[0]["token_ids"]
    assert loop["prefill_ms"] > 0
    assert loop["decode_ms"] > 0


def test_counters_that_stepping_does_not_move_are_null_with_a_reason(good: Any) -> None:
    timed = good.of("generation", kind="timed")[0]
    assert timed["engine_prefill_ms"] is timed["engine_decode_ms"] is timed["engine_gen_tokens"] is None
    assert timed["engine_counters_null"]


def test_the_cpu_is_proved_by_what_the_engine_answers(with_mnn: Any) -> None:
    load = with_mnn.of("load")[0]
    assert (load["backend_requested"], load["backend_actual"], load["strength"]) == ("cpu", "cpu", "engine")
    assert "runs on cpu" in load["proof"]


def test_options_reach_the_engine(with_mnn: Any, precise: Any) -> None:
    low, high = with_mnn.of("load")[0]["config"], precise.of("load")[0]["config"]
    assert (low["precision"], low["memory"], low["thread_num"]) == ("low", "low", 1)
    assert (high["precision"], high["memory"]) == ("high", "high")
    assert (low["max_new_tokens"], low["use_mmap"], low["sampler_type"]) == (7, False, "greedy")
    assert "jinja" not in low


def test_further_keys_reach_any_engine(good: Any) -> None:
    config = good.of("load")[0]["config"]
    assert (config["max_new_tokens"], config["use_mmap"]) == (7, False)


def test_what_the_engine_prints_goes_to_stderr(with_mnn: Any) -> None:
    assert "The device supports" in with_mnn.stderr
    assert b"The device supports" not in with_mnn.stdout


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
def test_a_silent_fallback_is_found(backend: str, mnn_runner: Any, tiny: Path, tmp_path: Path) -> None:
    ran = mnn_runner.run(tiny, tmp_path, "--backend", backend, *OPTIONS)
    load = ran.of("load")[0]
    assert (load["backend_requested"], load["backend_actual"], load["strength"]) == (backend, "cpu", "log")
    assert re.search("use 0 instead|init error, fallback", load["proof"])
    assert load["proof"] in ran.stderr
    assert len(ran.of("generation", kind="timed")) == 2


def test_a_required_backend_stops_the_run_before_anything_is_timed(mnn_runner: Any, tiny: Path, tmp_path: Path) -> None:
    ran = mnn_runner.run(tiny, tmp_path, "--backend", "opencl", "--require-backend", *OPTIONS)
    assert [event["event"] for event in ran.events] == ["hello", "load", "error", "end"]
    assert ran.of("error")[0]["stage"] == "fallback"
    assert ran.exit_code == 1


def test_a_prompt_longer_than_max_all_tokens_is_still_counted_exactly(runner: Any, tiny: Path, tmp_path: Path) -> None:
    options = ("--prompt-tokens", "300", "--generate-tokens", "4", "--warmups", "0", "--repeats", "1")
    ran = runner.run(tiny, tmp_path, "--engine", "max_all_tokens=128", *options)
    assert ran.of("generation")[0]["prompt_tokens"] == 300
    assert ran.of("generation")[0]["generated_tokens"] == 4


@pytest.mark.parametrize("name", ["llm.mnn", "llm.mnn.weight", "tokenizer.mtok", "llm_config.json", "config.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "pointer"])
def test_a_bad_file_is_named(name: str, damage: str, broken: Path, runner: Any, tmp_path: Path) -> None:
    if damage == "missing":
        (broken / name).unlink()
    else:
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
        (broken / name).write_text("" if damage == "empty" else pointer)
    refused(runner.run(broken, tmp_path), "config" if name == "config.json" else "load", name)


def refused(ran: Any, stage: str, *words: str) -> None:
    assert [event["event"] for event in ran.events] == ["hello", "error", "end"]
    error = ran.of("error")[0]
    assert error["stage"] == stage
    assert [word for word in words if word not in error["message"]] == []
    assert (ran.events[-1]["status"], ran.exit_code) == ("error", 1)


def test_half_a_weight_file_is_refused_although_the_engine_would_run_it(
    broken: Path, runner: Any, tmp_path: Path
) -> None:
    weight = broken / "llm.mnn.weight"
    size = weight.stat().st_size
    with weight.open("r+b") as file:
        file.truncate(size // 2)
    refused(runner.run(broken, tmp_path), "load", "llm.mnn.weight", f"{size // 2} bytes", f"reads {size}")


def test_one_byte_less_is_refused_too(broken: Path, runner: Any, tmp_path: Path) -> None:
    weight = broken / "llm.mnn.weight"
    with weight.open("r+b") as file:
        file.truncate(weight.stat().st_size - 1)
    refused(runner.run(broken, tmp_path), "load", "cut off")


def test_a_cut_graph_is_refused(broken: Path, runner: Any, tmp_path: Path) -> None:
    with (broken / "llm.mnn").open("r+b") as file:
        file.truncate(20_000)
    refused(runner.run(broken, tmp_path), "load", "llm.mnn", "not an MNN graph")


def test_a_file_that_is_no_tokenizer_is_refused(broken: Path, runner: Any, tmp_path: Path) -> None:
    (broken / "tokenizer.mtok").write_bytes(b"once upon a time\n" * 9)
    refused(runner.run(broken, tmp_path), "load", "tokenizer.mtok", "not an MNN tokenizer")


def test_weights_of_the_right_size_that_hold_nothing_end_in_an_error(
    broken: Path, mnn_runner: Any, tmp_path: Path
) -> None:
    weight = broken / "llm.mnn.weight"
    weight.write_bytes(bytes(weight.stat().st_size))
    ran = mnn_runner.run(broken, tmp_path)
    assert ran.exit_code == 1
    assert ran.of("generation") == []
    error = ran.of("error")[0]
    assert (error["stage"], "weightLength is 0" in error["message"]) == ("prefill", True)
    assert "weightLength is 0" in ran.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bogus"], "--bogus"),
        (["--threads", "0"], "'0' is not a whole number of at least 1"),
        (["--backend", "metal"], "metal"),
        (["--engine", "power"], "'power' is not KEY=JSON"),
        (["--engine", "power=high"], "not JSON"),
        (["--engine", 'backend_type="cpu"'], "use --backend"),
        (["--ask", '{"text": "Hi", "tokens": 0}'], "tokens"),
    ],
)
def test_a_wrong_option_gets_one_sentence(options: list[str], words: str, runner: Any, tmp_path: Path) -> None:
    ran = runner.run(tmp_path, tmp_path, *options)
    assert (ran.exit_code, ran.stdout) == (2, b"")
    assert words in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_nothing_is_left_when_it_is_killed(mnn_runner: Any, tiny: Path, tmp_path: Path) -> None:
    argv = mnn_runner.command(tiny, tmp_path, "--repeats", "1000000")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as runner:
        assert runner.stdout is not None
        assert b'"hello"' in runner.stdout.readline()
        helpers = psutil.Process(runner.pid).children(recursive=True)
        runner.send_signal(signal.SIGKILL)
        gone, alive = psutil.wait_procs(helpers, timeout=10)
    assert alive == []
    assert len(gone) == 1


def test_it_leaves_its_work_folder_empty_on_the_cpu(runner: Any, tiny: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    ran = runner.run(tiny, tmp_path / "new" / "folder", "--warmups", "0", "--repeats", "1")
    assert ran.of("load")[0]["load_ms"] < (time.monotonic() - started) * 1e3
    assert list((tmp_path / "new" / "folder").iterdir()) == []
