"""Captured outputs of MNNV2Basic, ModuleBasic and benchmark, good and failing: each has the verdict that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.asked import Asked
from harness.bench.believe import Belief, believe

SAMPLES = Path(__file__).parents[2] / "data" / "mnn_tensor"
OK, NOT_LOADED, CRASHED = "ok", "failed load_error", "failed crash"
WRONG_USE, ENGINE_ERROR, NOT_BUILT = "failed bad_plan", "failed engine_error", "unsupported backend_not_built"

# file: the verdict on the whole, and those on its figures in order (None: may be believed).
EXPECTED: dict[str, tuple[str, list[str | None]]] = {
    "MNNV2Basic_fp32": (OK, [None]),
    "MNNV2Basic_fp16_weights": (OK, [None]),
    "MNNV2Basic_int8_low": (OK, [None]),
    "MNNV2Basic_resized": (OK, [None]),
    # Any backend was asked for, and the engine made the CPU.
    "MNNV2Basic_auto": (OK, [None]),
    # Nothing in these says that the input was not there: the latency is right, and the output is called unchecked.
    "MNNV2Basic_no_input_file": (OK, [None]),
    "MNNV2Basic_short_input_file": (OK, [None]),
    # A few microseconds, by a clock of whole ones.
    "MNNV2Basic_slash_output": ("rejected noisy", ["noisy"]),
    "MNNV2Basic_two_inputs": ("rejected noisy", ["noisy"]),
    "MNNV2Basic_zero_loops": (WRONG_USE, []),
    "MNNV2Basic_no_args": (WRONG_USE, []),
    "MNNV2Basic_no_model": (NOT_LOADED, []),
    "MNNV2Basic_truncated": (NOT_LOADED, []),
    "MNNV2Basic_not_a_model": (NOT_LOADED, []),
    "MNNV2Basic_empty_model": (NOT_LOADED, []),
    # It goes on without the weights and prints a plausible latency.
    "MNNV2Basic_no_weight": (NOT_LOADED, ["load_error"]),
    "MNNV2Basic_wrong_shape": (ENGINE_ERROR, []),
    "MNNV2Basic_dynamic_no_shape": (ENGINE_ERROR, []),
    "MNNV2Basic_unsupported_op": (ENGINE_ERROR, []),
    "MNNV2Basic_opencl_missing": (NOT_BUILT, []),
    "MNNV2Basic_vulkan_missing": (NOT_BUILT, []),
    "MNNV2Basic_unknown_backend": (NOT_BUILT, []),
    # OpenCL's library was loaded, and there is no driver.
    "MNNV2Basic_opencl_no_driver": ("unsupported backend_missing_on_phone", []),
    "MNNV2Basic_killed": (CRASHED, []),
    "ModuleBasic_fp32": (OK, [None]),
    "ModuleBasic_int8_low": (OK, [None]),
    "ModuleBasic_checked": (OK, [None]),
    "ModuleBasic_differs": ("rejected output_wrong", ["output_wrong"]),
    "ModuleBasic_two_inputs": ("rejected noisy", ["noisy"]),
    "ModuleBasic_wrong_name": (NOT_LOADED, []),
    "ModuleBasic_wrong_output": (NOT_LOADED, []),
    "ModuleBasic_wrong_shape": (ENGINE_ERROR, []),
    "ModuleBasic_no_input_file": (WRONG_USE, ["bad_plan"]),
    "ModuleBasic_invalid_json": (WRONG_USE, []),
    "ModuleBasic_no_args": (WRONG_USE, []),
    "ModuleBasic_zero_loops": (WRONG_USE, []),
    "ModuleBasic_no_model": (NOT_LOADED, []),
    "ModuleBasic_truncated": (NOT_LOADED, []),
    "ModuleBasic_not_a_model": (NOT_LOADED, []),
    "ModuleBasic_no_weight": (NOT_LOADED, ["load_error"]),
    "ModuleBasic_unsupported_op": (ENGINE_ERROR, []),
    # It does not look whether it was given a runtime, and what it had printed is lost.
    "ModuleBasic_opencl_missing": (CRASHED, []),
    "ModuleBasic_opencl_no_driver": (CRASHED, []),
    "ModuleBasic_vulkan_missing": (CRASHED, []),
    "ModuleBasic_unknown_backend": (CRASHED, []),
    "ModuleBasic_killed": (CRASHED, []),
    "benchmark_fp32": (OK, [None]),
    "benchmark_two_models": (OK, [None, None]),
    "benchmark_random_weights": (OK, [None]),
    # It takes the CPU where the backend is missing, and its own table says OpenCL.
    "benchmark_opencl_missing": ("rejected backend_fallback", ["backend_fallback"]),
    "benchmark_opencl_no_driver": ("rejected backend_fallback", ["backend_fallback"]),
    "benchmark_vulkan_missing": ("rejected backend_fallback", ["backend_fallback"]),
    "benchmark_unknown_backend": ("rejected backend_fallback", ["backend_fallback"]),
    "benchmark_zero_loops": (WRONG_USE, ["bad_plan"]),
    "benchmark_empty_folder": (WRONG_USE, []),
    "benchmark_no_folder": (WRONG_USE, []),
    "benchmark_no_args": (WRONG_USE, []),
    "benchmark_open_shape": (ENGINE_ERROR, ["engine_error"]),
    "benchmark_unsupported_op": (ENGINE_ERROR, ["engine_error"]),
    "benchmark_truncated": (CRASHED, []),
    # It takes every file for a model, the weights too.
    "benchmark_with_weight_file": (CRASHED, []),
    "benchmark_killed": (CRASHED, []),
}


def captured(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


def verdict(belief: Belief) -> tuple[str, list[str | None]]:
    reason = belief.whole.reason
    whole = " ".join([belief.whole.verdict.value, *([reason.code] if reason else [])])
    return whole, [judged.reason.code if judged.reason else None for judged in belief.figures]


def test_no_capture_is_without_a_verdict() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in SAMPLES.glob("*.txt"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_capture_is_judged_right(name: str) -> None:
    belief = believe(captured(name))
    assert verdict(belief) == EXPECTED[name]
    assert all(judged.detail for judged in (belief.whole, *belief.figures))


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if "killed" not in name))
def test_what_went_to_the_phones_log_is_judged_alike(name: str) -> None:
    lines = captured(name).split("\n")
    logged = [line if line.startswith("# ") else f"06-01 12:00:00.000  100  101 E MNNJNI  : {line}" for line in lines]
    assert verdict(believe("\n".join(logged))) == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "backend", "expected"),
    [
        ("MNNV2Basic_fp32", "opencl", "backend_fallback"),
        ("ModuleBasic_fp32", "opencl", "backend_unproven"),
        ("benchmark_fp32", "vulkan", "backend_fallback"),
    ],
)
def test_only_what_the_engine_says_proves_a_gpu(name: str, backend: str, expected: str) -> None:
    said = captured(name).split("--- stdout\n")[1]
    belief = believe(said, Asked(backends=(backend,)))
    assert belief.whole.reason is not None
    assert belief.whole.reason.code == expected


def test_what_is_known_of_the_output_is_said() -> None:
    assert (
        believe(captured("ModuleBasic_checked"))
        .figures[0]
        .detail.endswith("compared with what lay beside the input: y")
    )
    assert believe(captured("ModuleBasic_fp32")).figures[0].detail.endswith("the output was not checked")
    assert "computes with zeros" in believe(captured("MNNV2Basic_no_input_file")).figures[0].detail


def test_a_crash_where_the_backend_may_be_missing_says_so_and_the_log_tells_why() -> None:
    crash = captured("ModuleBasic_opencl_missing")
    assert believe(crash).whole.detail.endswith("so it ends where the engine has no opencl")
    logged = crash + "E/MNNJNI( 7): Create Runtime Failed because no creator for 3\n"
    assert verdict(believe(logged))[0] == NOT_BUILT
    assert "so it ends" not in believe(crash.replace(" 0 3 10", " 0 0 10")).whole.detail


def test_a_folder_of_models_that_nobody_knows_the_end_of_is_not_called_empty() -> None:
    unfinished = captured("benchmark_empty_folder").replace("# exit status: 0\n", "")
    assert verdict(believe(unfinished))[0] == "failed silent_exit"


def test_runs_of_ten_microseconds_are_long_enough() -> None:
    said = captured("ModuleBasic_fp32").replace("min= 0.111000", "min= {}")
    assert verdict(believe(said.replace("{}", "0.009000")))[1] == ["noisy"]
    assert verdict(believe(said.replace("{}", "0.010000")))[1] == [None]
