"""Cells of MNN's own tools: an honest one is ok, and what ``mnn-farm judge`` refuses is refused in a cell, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.asked import Asked
from harness.bench.believe import believe
from harness.bench.evidence import ColdStart, Evidence
from harness.bench.match import Expected, Reference
from harness.bench.memory import rss_after_generations
from harness.bench.moments import timed_span
from harness.bench.record import metrics_of, remarks_of, samples_of
from harness.bench.said import output_of
from harness.bench.validity import judge
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog
from harness.runners.base import MAIN, Order
from harness.runners.registry import RUNNERS

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"
KERNELS = "Update cache to tmp/mnn_cachefile.bin, size = 4096"


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "runners" / "tool_runs.py")


@pytest.fixture
def ran(tools: ModuleType, tmp_path: Path) -> Callable[..., Evidence]:
    def make(runner: str, main: RunLog, others: Mapping[str, RunLog] | None = None, **over: Any) -> Evidence:
        order: Order = tools.order(runner, tmp_path / "toy", reference={"policy": "prefix"}, **over)
        runs = {MAIN: main, **(others or {})}
        told = RUNNERS[order.bundle.runner].read(order, runs)
        return Evidence(order.cell, order.plan, main, told, weight_bytes=80_000_000, ram_bytes=8 << 30)

    return make


def codes(evidence: Evidence) -> list[str]:
    return [objection.reason.code for objection in judge(evidence)]


def bench(
    tools: ModuleType, ran: Callable[..., Evidence], *rows: str, said: str | None = None, **over: Any
) -> Evidence:
    words = {} if said is None else {"said": said}
    return ran(
        "llm_bench", tools.bench(*(rows or (tools.row(), tools.row())), **words), {"text": tools.shown()}, **over
    )


def demo(tools: ModuleType, ran: Callable[..., Evidence], **over: Any) -> Evidence:
    return ran("llm_demo", tools.demo([tools.TEXT] * 3, 8), **over)


def test_honest_cells_are_ok(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    assert codes(bench(tools, ran)) == []
    assert codes(demo(tools, ran)) == []


def test_the_figures_are_those_that_the_tools_tell(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    nulls: dict[str, str] = {}
    of_bench = metrics_of(bench(tools, ran, tools.row(), tools.row("500.00 ± 0.00<br>40.00 ± 0.00")), nulls)
    assert of_bench is not None
    assert (of_bench.prefill_tps, of_bench.decode_tps) != (None, None)
    assert of_bench.prefill_tps is not None
    assert of_bench.decode_tps is not None
    assert (of_bench.prefill_tps.median, of_bench.decode_tps.median, of_bench.decode_tps.n) == (450.0, 45.0, 2)
    assert (of_bench.ttft_ms, of_bench.token_ms) == (None, None)
    assert nulls["ttft_ms"] == "nothing tells when each timed prompt was submitted"
    assert nulls["token_ms"] == "the moments of single tokens are not known"
    of_demo = metrics_of(demo(tools, ran, warmups=0, repeats=3), {})
    assert of_demo is not None
    assert of_demo.ttft_ms is not None
    assert of_demo.prefill_tps is not None
    assert of_demo.decode_tps is not None
    assert of_demo.token_ms is not None
    assert (of_demo.ttft_ms.p50, of_demo.ttft_ms.n) == (100.0, 1)
    assert (of_demo.prefill_tps.median, of_demo.prefill_tps.n) == (400.0, 1)
    assert (of_demo.decode_tps.median, of_demo.decode_tps.n, of_demo.token_ms.p50) == (50.0, 3, 20.0)


def test_every_generation_is_a_sample(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    assert [(one.kind, one.decode_tps) for one in samples_of(bench(tools, ran))] == [
        ("timed", 50.0),
        ("timed", 50.0),
        ("check", None),
    ]


def test_the_record_says_how_the_tool_defines_its_figures(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    for evidence, says in ((bench(tools, ran), "sampling excluded"), (demo(tools, ran), "as farm_runner defines it")):
        [finding] = [one for one in remarks_of(evidence) if one.code == "definition"]
        assert says in finding.title


@pytest.mark.parametrize(
    ("rows", "said", "code"),
    [
        ({"size": "17179869184.00 GiB"}, None, "load_error"),
        ({}, "[Error]: LLM weight file not found: model/llm.mnn.weight", "load_error"),
        ({}, "Resize error, can't execute MNN", "engine_error"),
        ({"speeds": "8000000.00 ± 0.00<br>1000000.00 ± 0.00"}, None, "implausible_speed"),
        ({"speeds": "400.00 ± 0.00<br>nan ± nan"}, None, "implausible_speed"),
        ({"speeds": "400.00 ± 0.00<br>inf ± 0.00"}, None, "implausible_speed"),
        ({"speeds": "40.00 ± 0.00<br>400.00 ± 0.00"}, None, "implausible_speed"),
        ({"speeds": "400.00 ± 0.00"}, None, "unparsed_output"),
        ({"backend": "OPENCL"}, None, "backend_fallback"),
        ({"threads": "7"}, None, "engine_error"),
    ],
)
def test_a_row_that_nobody_should_believe_is_refused(
    tools: ModuleType, ran: Callable[..., Evidence], rows: dict[str, str], said: str | None, code: str
) -> None:
    assert codes(bench(tools, ran, tools.row(), tools.row(**rows), said=said))[0] == code


def test_an_unknown_layout_is_refused_and_shown(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    main = tools.run(
        [(8000.0, b"| model | what | t/s |\n| --- | --- | --- |\n| model | pp8+tg4 | 50.00 \xc2\xb1 0.00 |\n")]
    )
    [first, *_] = judge(ran("llm_bench", main))
    assert first.reason.code == "unparsed_output"
    assert first.evidence.startswith("| model | ")


def gpu(tools: ModuleType, ran: Callable[..., Evidence], said: str) -> Evidence:
    row = tools.row(backend="OPENCL", threads="68")
    return bench(tools, ran, row, row, said=said, backends=["opencl"])


def test_a_gpu_needs_more_than_its_name_in_the_row(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    assert codes(gpu(tools, ran, ""))[0] == "backend_unproven"
    assert codes(gpu(tools, ran, "Can't Find type=3 backend, use 0 instead"))[0] == "backend_fallback"
    assert codes(gpu(tools, ran, KERNELS)) == []


def test_kernels_of_the_cold_start_prove_the_warm_run(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    evidence = demo(tools, ran, backends=["opencl"])
    assert codes(evidence)[0] == "backend_unproven"
    assert codes(replace(evidence, cold=ColdStart(compiled=KERNELS))) == []


def test_equal_repeats_are_no_loop_and_a_loop_is(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    assert codes(ran("llm_demo", tools.demo([tools.TEXT] * 9, 8), repeats=8)) == []
    sentence = [b" She", b" wrote", b" down", b" the", b" time", b" and", b" pressed", b" a", b" key", b"."]
    rambling = ran("llm_demo", tools.demo([sentence * 8] * 3, 8), generate_tokens=[80])
    assert codes(rambling) == [], "a model that says a sentence again and again may be an honest one"
    looping = ran("llm_demo", tools.demo([[b" east"] * 40] * 3, 8), generate_tokens=[40])
    assert codes(looping)[0] == "output_degenerate"


def test_a_broken_text_of_the_run_beside_is_refused(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    empty = tools.demo([[b" ", b" ", b"\t", b" "]], 8)
    evidence = ran("llm_bench", tools.bench(tools.row(), tools.row()), {"text": empty})
    assert codes(evidence) == ["output_degenerate"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"why": "lease_lost", "exit_code": None}, "lease_lost"),
        ({"why": "deadline", "exit_code": None}, "hang"),
        ({"signal": 11, "exit_code": None}, "crash"),
        ({"seq": 99}, "harness_error"),
    ],
)
def test_how_a_run_beside_the_measured_one_ended_counts(
    tools: ModuleType, ran: Callable[..., Evidence], end: dict[str, Any], code: str
) -> None:
    shown = tools.run([*tools.streamed([tools.TEXT]), (900.0, tools.summary(8, 4))], **end)
    evidence = ran("llm_bench", tools.bench(tools.row(), tools.row()), {"text": shown})
    assert codes(replace(evidence, beside=(shown,)))[0] == code


def test_weights_that_were_never_in_memory_are_refused(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    evidence = bench(tools, ran)
    assert codes(replace(evidence, weight_bytes=400_000_000)) == ["load_error"]
    mapped = bench(tools, ran, engine={"use_mmap": True})
    assert codes(replace(mapped, weight_bytes=400_000_000)) == []


def reference(text: str = "The river ran east", **over: Any) -> Reference:
    pieces = {10: b"The", 11: b" river", 12: b" ran", 13: b" east", 14: b" west", 15: b" eastward"}
    values = {
        "token_ids": (10, 11, 12, 13),
        "text": text,
        "finish": "length",
        "prompt_tokens": 8,
        "pieces": {token: piece.hex() for token, piece in pieces.items()},
        **over,
    }
    return Reference(engine_version="3.6.1", timed=Expected(**values), answers=())


@pytest.mark.parametrize("runner", ["llm_bench", "llm_demo"])
def test_the_text_is_held_against_the_reference(tools: ModuleType, ran: Callable[..., Evidence], runner: str) -> None:
    evidence = bench(tools, ran) if runner == "llm_bench" else demo(tools, ran)
    evidence = replace(evidence, reference=reference())
    said = output_of(evidence, evidence.plan, nulls := {})
    assert said is not None
    assert (said.reference, said.match, said.matched_tokens) == ("host", "prefix", 4)
    assert (said.timed_text, said.token_ids_hash) == ("The river ran east", None)
    assert nulls["token_ids_hash"] == "the runner tells no token ids"
    other = reference("The river ran west", token_ids=(10, 11, 12, 14))
    [objection] = judge(replace(evidence, reference=other))
    assert objection.reason.code == "output_wrong"
    assert "token 4 is another one instead of 14" in objection.detail
    near = reference("The river ran west", token_ids=(10, 11, 12, 14), margins=((), (), (), ((13, 0.1),)))
    assert codes(replace(evidence, reference=near)) == []


def test_without_pieces_nothing_is_compared(tools: ModuleType, ran: Callable[..., Evidence]) -> None:
    evidence = replace(bench(tools, ran), reference=reference("Other", pieces={}))
    said = output_of(evidence, evidence.plan, {})
    assert said is not None
    assert said.match is None


def test_the_timed_part_is_as_long_as_its_tokens_where_they_are_known(
    tools: ModuleType, ran: Callable[..., Evidence]
) -> None:
    span, whole = timed_span(demo(tools, ran)), timed_span(bench(tools, ran))
    assert span is not None
    assert whole is not None
    assert [(ns - tools.BEGUN_NS) // tools.MS for ns in (span.begin_ns, span.end_ns)] == [760, 980]
    assert [(ns - tools.BEGUN_NS) // tools.MS for ns in (whole.begin_ns, whole.end_ns)] == [0, 9000]


def test_memory_after_each_generation_is_that_of_the_last_sample(
    tools: ModuleType, ran: Callable[..., Evidence], make: ModuleType
) -> None:
    evidence = demo(tools, ran)
    for at_ms, rss in ((650, 100), (850, 110), (990, 120)):
        evidence.run.add(make.sample(mono_ns=tools.BEGUN_NS + at_ms * tools.MS, rss_bytes=rss))
    assert rss_after_generations(evidence) == [100, 110]
    assert rss_after_generations(bench(tools, ran)) == []


def captured(name: str) -> tuple[bytes, bytes]:
    """Return stdout and stderr of a captured output."""
    text = (SAMPLES / name).read_text(encoding="utf-8", errors="surrogateescape")
    stdout = text.partition("# --- stdout\n")[2].partition("# --- stderr\n")
    raw = [part.partition("# file written by")[0].encode("utf-8", "surrogateescape") for part in (stdout[0], stdout[2])]
    return raw[0], raw[1]


@pytest.mark.parametrize("name", sorted(file.name for file in SAMPLES.glob("llm_*.txt")))
def test_what_judge_refuses_in_a_captured_output_is_refused_in_a_cell(
    tools: ModuleType, ran: Callable[..., Evidence], name: str
) -> None:
    runner = name[: len("llm_bench")].rstrip("_")
    stdout, stderr = captured(name)
    backend = "opencl" if "opencl" in name else "vulkan" if "vulkan" in name else "cpu"
    over: dict[str, Any] = {"backends": [backend], "warmups": 0, "repeats": 1}
    if name == "llm_bench_pg.txt":
        over |= {"prompt_tokens": [64], "generate_tokens": [16]}
    if name == "llm_demo_ok.txt":
        over |= {"prompt_tokens": [73], "generate_tokens": [26]}
    stdout = stdout.replace(b"| m      ", b"| model  ")
    exit_code = int((SAMPLES / name).read_text(errors="replace").partition("# exit status: ")[2].split("\n")[0])
    main = tools.run([(8000.0, stdout)], stderr=stderr, exit_code=exit_code)
    objections = judge(ran(runner, main, {"text": tools.shown(64)}, **over))
    believed = believe(stdout + b"\n" + stderr, Asked(tool=runner, backends=(backend,), exit_code=exit_code)).whole
    # How much repeats spread is the plan's rule in a cell, over rows of one repeat each.
    assert objections or believed.reason in (None, Reason.NOISY), believed
    assert bool(objections) == (name not in ("llm_bench_pg.txt", "llm_demo_ok.txt"))
