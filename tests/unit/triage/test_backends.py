"""The GPU is called slower only where the same work stands beside the CPU's, and is slower in all of it."""

from __future__ import annotations

import pytest

from harness.triage.finding import Finding
from harness.triage.triage import Source, triage

BENCHMARK = (
    "Forward type: CPU thread=4 precision=2\n"
    "[ - ] a.mnn    max =   21.000 ms  min =   20.000 ms  avg =   20.000 ms\n"
    "[ - ] b.mnn    max =   41.000 ms  min =   40.000 ms  avg =   40.000 ms\n"
    "Forward type: OpenCL thread=68 precision=2\n"
    "[ - ] a.mnn    max =   51.000 ms  min =   50.000 ms  avg =   50.000 ms\n"
)
ROWS = (
    "| model | modelSize | backend | threads | precision | test | t/s |\n"
    "| ----- | --------: | ------- | ------: | --------- | ---- | --- |\n"
    "| m | 80.43 MiB | CPU | 4 | Low | tg64 | 40.10 ± 0.10 |\n"
    "| m | 80.43 MiB | OPENCL | 68 | Low | tg64 | {gpu:.2f} ± 0.10 |\n"
)


def slower(text: str) -> Finding | None:
    told = triage([Source.of_text("x", text)])
    return next((one for one in told if one.code == "gpu_slower_than_cpu"), None)


def test_benchmark_out_on_two_backends_is_compared_model_by_model() -> None:
    finding = slower(BENCHMARK + "[ - ] b.mnn    max =   91.000 ms  min =   90.000 ms  avg =   90.000 ms\n")
    assert finding is not None
    assert "50.000 ms on opencl, 20.000 ms on the CPU (2.5 times)" in finding.title
    assert [one.line for one in finding.evidence] == [2, 5]


def test_a_gpu_that_is_faster_in_one_of_them_is_not_called_slower() -> None:
    assert slower(BENCHMARK + "[ - ] b.mnn    max =   11.000 ms  min =   10.000 ms  avg =   10.000 ms\n") is None


def test_rows_of_llm_bench_are_compared_by_their_test() -> None:
    finding = slower(ROWS.format(gpu=10))
    assert finding is not None
    assert "10 tok/s on opencl, 40.1 tok/s on the CPU" in finding.title
    assert slower(ROWS.format(gpu=39)) is None


@pytest.mark.parametrize(
    "text",
    [
        "# backend=cpu decode 20 tok/s\n# backend=opencl prefill 5 tok/s\n",
        "# backend=cpu 20 tok/s\n# backend=opencl 5 ms\n",
        "# backend=opencl 5 tok/s\n",
        "# cpu and opencl 20 tok/s\n# opencl 5 tok/s\n",
        "# backend=cpu 0 tok/s\n# backend=opencl 5 tok/s\n",
        "cpu governor changed in 20 ms\ngpu clock changed in 90 ms, then in 40 ms\n",
    ],
)
def test_what_is_not_the_same_work_is_not_compared(text: str) -> None:
    assert slower(text) is None


def test_a_second_start_that_is_as_slow_as_the_first_shows_a_cache_without_effect() -> None:
    said = "# createSession first run: 30 s\n# createSession second run: {} s\n"
    assert [one.code for one in triage([Source.of_text("x", said.format(29))])] == ["opencl_cache_ineffective"]
    assert triage([Source.of_text("x", said.format(3))]) == ()


def test_backends_that_are_all_the_same_leave_unproven_which_one_ran() -> None:
    told = triage([Source.of_text("x", "# cpu 88.1 ms\n# opencl 88.9 ms\n# vulkan 87.5 ms\n")])
    assert [one.code for one in told] == ["backend_unproven"]
    assert "opencl is as fast as the CPU (88.9 ms, 88.1 ms)" in told[0].title


def test_the_mean_counts_where_a_line_tells_the_extremes_too() -> None:
    finding = slower("CPU backend: max = 300.0 ms  avg = 200.0 ms\nopenCL backend: max = 310.0 ms  avg = 300.0 ms\n")
    assert finding is not None
    assert "300.0 ms on opencl, 200.0 ms on the CPU (1.5 times)" in finding.title


def test_figures_of_one_line_are_compared_each_by_its_name() -> None:
    finding = slower(
        "CPU 4 threads: prefill 45.2 tok/s, decode 14.1 tok/s\nOpenCL: prefill 30.1 tok/s, decode 5 tok/s\n"
    )
    assert finding is not None
    assert "5 tok/s on opencl, 14.1 tok/s on the CPU (2.8 times)" in finding.title
    assert slower("CPU: prefill 45.2 tok/s, decode 14.1 tok/s\nOpenCL: prefill 130 tok/s, decode 5 tok/s\n") is None
