"""MNN's tools for single models: what they tell, and nothing that they do not."""

from __future__ import annotations

import pytest

from harness.runners.lines import read_lines
from harness.runners.mnn_tools import Latency, ToolLog, parse_tools

AVERAGE = "Avg= 2.500000 ms, OpSum = 2.250000 ms min= 2.125000 ms, max= 3.000000 ms"
MODULE = "Avg= 2.500000 ms, min= 2.125000 ms, max= 3.000000 ms"
ROW = "[ - ] mobilenet v2.mnn          max =    3.000 ms  min =    2.125 ms  avg =    2.500 ms"
TOTAL = "total time : 2.500000 ms, total mflops : 88.250000 "


def parse(*lines: str) -> ToolLog:
    return parse_tools(read_lines("\n".join(lines).encode()))


def test_mnnv2basic_tells_what_the_engine_made() -> None:
    session = "Session Info: memory use 1.500000 MB, flops is 20.000000 M, backendType is 3"
    assert parse("Use extra forward type: 3", session, AVERAGE) == ToolLog(
        forward_type=3, backend_type=3, memory_mb=1.5, latencies=(Latency("run", 2.5, 2.125, 3.0, AVERAGE),)
    )


@pytest.mark.parametrize(
    ("line", "latency"),
    [
        (MODULE, Latency("run", 2.5, 2.125, 3.0, MODULE)),
        (ROW, Latency("mobilenet v2.mnn", 2.5, 2.125, 3.0, ROW)),
        (TOTAL.strip(), Latency("sum of operators", 2.5, None, None, TOTAL.strip())),
    ],
)
def test_every_tools_latency_is_read(line: str, latency: Latency) -> None:
    assert parse(f"E/MNNJNI: {line}").latencies == (latency,)


@pytest.mark.parametrize("line", [AVERAGE, MODULE, ROW, TOTAL.strip()])
def test_a_line_that_is_cut_or_has_another_unit_is_shown_and_gives_no_number(line: str) -> None:
    assert parse(line.replace(" ms", " us")).latencies == ()
    shown = 0
    for cut in range(len(line)):
        log = parse(line[:cut])
        # What is left after the unit of the last figure may be whole already.
        assert log.latencies == () or line[:cut].rstrip().endswith(" ms") or line.startswith("total")
        shown += bool(log.unread)
    assert shown > 3


def test_memory_and_version_and_name_are_told() -> None:
    assert parse("memoryInMB=f 0.500000 in main, 5 ", "memoryInMB=f 0.750000 in main, 5 ").memory_mb == 0.75
    assert parse("Model Version: 3.5.0 ").version == "3.5.0"
    named = "Forward type: OpenCL thread=4 precision=2 sparsity=0 sparseBlockOC=1 testQuantizedModel=0 enableKleidiAI=0"
    assert parse(named).forward_name == "opencl"
    assert parse("Forward type: **CPU** thread=4** precision=2").forward_name == "cpu"
    assert parse(named.replace("OpenCL", "N/A")).forward_name is None


def test_what_a_tool_repeats_of_its_settings_is_told() -> None:
    benchmark = (
        "Forward type: CPU thread=4 precision=2 sparsity=0 sparseBlockOC=1 testQuantizedModel=0 enableKleidiAI=0"
    )
    log = parse("MNN benchmark", benchmark, "--------> Benchmarking... loop = 7, warmup = 5")
    assert (log.benchmark, log.threads, log.precision, log.memory, log.loops) == (True, 4, 2, None, 7)
    assert parse("precision:1, memory: 2, Run 30 time:") == ToolLog(precision=1, memory=2, loops=30)
    assert parse("precision=1 in main, 260 ", "memory=2 in main, 261 ") == ToolLog(precision=1, memory=2)
    assert parse("precision:1, memory: 0, Run 5 time:", "precision:2, memory: 1, Run 9 time:").loops == 5


def test_modulebasic_tells_what_it_wrote_compared_and_missed() -> None:
    log = parse("Write out/a output to output/0_0.txt", "For a b, max = 0.5, diffmax = 0.0, diff rate = 0.0")
    assert (log.written, log.compared, log.differing) == ((("out/a", "output/0_0.txt"),), ("a b",), ())
    differs = "TESTERROR y value error : absMaxV:0.1 - DiffMax 0.8"
    assert parse("For y, max = 0.1, diffmax = 0.8, diff rate = 8.0", differs).differing == (differs,)
    assert parse("TESTERROR name:y, info:0x0, ptr:0x0. size:10").differing != ()
    assert parse("TESTERROR Can't open in/x.txt").missing == ("TESTERROR Can't open in/x.txt",)
    assert parse("Write y output to ../../etc/passwd").written == ()


def test_a_comparison_tells_what_it_left_out() -> None:
    log = parse("Test forward type: 7", "Can't compare tensor: x", "Can't compare tensor: x", "Correct !")
    assert (log.forward_type, log.correct, log.differing) == (7, True, ("Can't compare tensor: x",))
    assert parse("Test forward type: 7", "12 [Conv] Op outputs y is error").correct is False
    assert parse("Correct !").correct is None


def test_notes_and_other_texts_tell_nothing() -> None:
    assert parse(f"# {AVERAGE}", "The average is 3 ms.", "total time: long") == ToolLog()
    assert parse("Arguments: model.MNN runLoops runMask forwardType") == ToolLog(usage=True)
