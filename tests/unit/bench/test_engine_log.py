"""Every output of MNN's tools that was captured, classified as a careful engineer would."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.engine_log import (
    find_compiled,
    find_errors,
    find_fallback,
    find_gpu_errors,
    find_link_errors,
    find_load_errors,
    find_missing_backend,
    find_mixed,
)

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"

# file: the backend that a fallback line names, and how the first error begins ("" for none).
EXPECTED = {
    "GetMNNInfo": (None, ""),
    "MNNV2Basic_cpu": (None, ""),
    "MNNV2Basic_dynamic_no_shape": (None, "Resize error"),
    "MNNV2Basic_no_model": (None, "Can't open file:nowhere.mnn"),
    # It names the missing backend as its own replacement: nothing ran at all.
    "MNNV2Basic_opencl_missing": ("opencl", "Create Runtime Failed"),
    "MNNV2Basic_truncated": (None, "Invalidate buffer"),
    "ModuleBasic_bad_dir": (None, "Invalid json"),
    # "Open output/input.mnn error" is that tool's way to say that it was asked to compare with nothing.
    "ModuleBasic_cpu": (None, ""),
    "backendTest_opencl_missing": ("cpu", "Can't run session"),
    "llm_bench_bad_option": (None, "Parse arguments error"),
    "llm_bench_default": (None, ""),
    "llm_bench_kv_deprecated": (None, ""),
    "llm_bench_no_model": (None, "File not exist: nowhere/llm.mnn.weight"),
    "llm_bench_no_weight": (None, "File not exist: m/llm.mnn.weight"),
    "llm_bench_opencl_fell_back": ("cpu", ""),
    "llm_bench_pg": (None, ""),
    "llm_bench_sweep": (None, ""),
    "llm_bench_truncated_weight": (None, "ReadQuanData_c return weightLength is 0"),
    # No line tells: here only the runner's own proof can.
    "llm_bench_vulkan_ignored": (None, ""),
    "llm_demo_lfs_pointer": (None, "Invalidate buffer"),
    "llm_demo_no_args": (None, ""),
    "llm_demo_no_weight": (None, "[Error]: LLM weight file not found"),
    "llm_demo_ok": (None, ""),
    "llm_demo_truncated_graph": (None, "Invalidate buffer"),
    "llm_demo_truncated_weight": (None, "ReadQuanData_c return weightLength is 0"),
    "llm_demo_unknown_backend": (None, ""),
    "llm_demo_vulkan_fell_back": ("cpu", ""),
    "timeProfile_cpu": (None, ""),
}


def output_of(name: str) -> bytes:
    """Stdout and stderr of a sample, without the lines about them."""
    lines = (SAMPLES / f"{name}.txt").read_bytes().split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith(b"# "))


def test_every_sample_is_classified() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in SAMPLES.glob("*.txt"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_captured_output_is_what_a_careful_engineer_calls_it(name: str) -> None:
    used, error = EXPECTED[name]
    log = output_of(name)
    mark, errors = find_fallback(log), find_errors(log)
    assert (mark.used if mark else None) == used
    assert errors[0].startswith(error) if error else errors == []
    assert find_link_errors(log) == []


@pytest.mark.parametrize("name", [name for name, (used, _) in EXPECTED.items() if used == "cpu"])
def test_a_fallbacks_evidence_is_the_line_that_names_the_backend(name: str) -> None:
    mark = find_fallback(output_of(name), "opencl")
    assert mark is not None
    assert mark.line.endswith("backend, use 0 instead")
    assert find_fallback(output_of(name), "cpu") is None


@pytest.mark.parametrize(
    ("code", "used"), [(b"0", "cpu"), (b"13", "cpu"), (b"3", "opencl"), (b"7", "vulkan"), (b"42", "type 42")]
)
def test_backend_numbers_have_names(code: bytes, used: str) -> None:
    mark = find_fallback(b"Can't Find type=9 backend, use " + code + b" instead")
    assert mark is not None
    assert mark.used == used


def test_each_error_is_told_once_in_order_and_not_endlessly() -> None:
    log = b"[Error]: b\n[Error]: a\r\n  [Error]: b  \n[Error]: " + b"x" * 1000 + b"\xff\n"
    errors = find_errors(log)
    assert errors[:2] == ["[Error]: b", "[Error]: a"]
    assert len(errors) == 3
    assert len(errors[2]) == 300


@pytest.mark.parametrize(
    "line",
    [
        b"Can't open file:tmp_1/mnn_cachefile.bin",
        b"Can't open file:/data/my folder.mnn/mnn_cachefile.bin",
        b"Load Cache file error.",
        b"Can't open file:.tempcache",
        b"Update cache to .tempcache, from size:10 -> size:20",
        b"the error was not found",
        b"code=0 in onForward, 10",
        b"Don't support 16 bit",
    ],
)
def test_harmless_lines_are_harmless(line: bytes) -> None:
    assert find_errors(line) == []
    assert find_fallback(line) is None


def test_an_error_that_names_a_cache_is_an_error() -> None:
    line = b"[Error]: mnn_cachefile.bin belongs to another model"
    assert find_errors(line) == [line.decode()]


def test_an_operator_the_build_lacks_is_an_error() -> None:
    assert len(find_errors(b"load x.mnn ... Don't support type [Attention], Attention/layers.0/x_output_0")) == 1


def test_a_log_of_odd_bytes_is_read() -> None:
    assert find_errors(bytes(range(256)) * 10) == []
    mark = find_fallback(b"\xff\x00Can't Find type=3 backend, use 0 instead\xfe")
    assert mark is not None
    assert "\ufffd" in mark.line


@pytest.mark.parametrize(
    "line",
    [
        b"Don't support type Range memObject:1, /model/Range",
        b"Don't support type Scatter for int8 input",
        b"The Creator Don't support type MatMul, memObject:0, ",
        b"beyond cl_image creat size! fallback to cpu backend",
        b"openCL not support interp type:4, fallback to cpu",
        b"Vulkan don't support 301, Attention: /layers.0/attn",
        b"Vulkan don't support for /x, type=Convolution, Special case",
        b"[NPU] Don't support type 77, /y",
        b"MNN_QNN: Don't support type 77.",
        b"06-01 12:00:00.000  100  101 I MNNJNI  : [NNAPI] Don't support type Range.",
    ],
)
def test_an_operator_that_is_left_to_the_cpu_makes_a_mixture(line: bytes) -> None:
    assert find_mixed(line + b"\n" + line) == [line.split(b"MNNJNI  : ")[-1].strip().decode()]
    assert find_fallback(line) is None
    assert find_errors(line) == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_ordinary_builds_name_no_operator(name: str) -> None:
    assert find_mixed(output_of(name)) == []


def test_what_the_cpu_lacks_is_no_mixture() -> None:
    assert find_mixed(b"Don't support type [Attention], /x\nDon't support 3\n") == []


def test_a_missing_backend_is_told_from_a_replaced_one() -> None:
    mark = find_missing_backend(output_of("MNNV2Basic_opencl_missing"))
    assert mark is not None
    assert (mark.used, mark.line) == ("opencl", "Create Runtime Failed because no creator for 3")
    assert find_missing_backend(output_of("llm_bench_opencl_fell_back")) is None


def test_lines_of_the_phones_log_come_without_its_prefix_and_once() -> None:
    log = (
        b"06-01 12:00:00.000  100  101 E MNNJNI  : [Error]: LLM in error state. Status: 4\r\n"
        b"06-01 12:00:01.000  100  101 E MNNJNI  : [Error]: LLM in error state. Status: 4\r\n"
        b"E/MNNJNI: Can't open file:/data/q.mnn/mnn_cachefile.bin\n"
        b"E MNNJNI  : Generation failed due to internal error\n"
    )
    assert find_errors(log) == ["[Error]: LLM in error state. Status: 4", "Generation failed due to internal error"]
    mark = find_fallback(b"I/MNNJNI: Can't Find type=7 backend, use 0 instead")
    assert mark is not None
    assert mark.line == "Can't Find type=7 backend, use 0 instead"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_model_that_was_not_loaded_whole_is_told_from_other_errors(name: str) -> None:
    broken = ("no_model", "no_weight", "truncated", "lfs_pointer", "truncated_weight", "truncated_graph")
    assert bool(find_load_errors(output_of(name))) == name.endswith(broken)


@pytest.mark.parametrize(
    "line",
    [
        "CL ERROR CODE : -36, info:X",
        "LLVM ERROR: y",
        "Build program failed, err:-11 ! ",
        "OpenCL enqueue read error:-5",
    ],
)
def test_a_drivers_error_is_an_error(line: str) -> None:
    assert find_gpu_errors(line.encode()) == find_errors(line.encode()) == [line.strip()]


def test_kernels_that_were_written_down_prove_a_gpu() -> None:
    newer, older = "Update cache to tmp/mnn_cachefile.bin, size = 9", "Update cache to .x, from size:1 -> size:2"
    assert [find_compiled(line.encode()) for line in (newer, older, "Update cache")] == [newer, older, None]
