"""What was asked for, out of command lines and notes."""

from __future__ import annotations

import pytest

from harness.bench.asked import Asked, TextSeen, read_asked
from harness.runners.lines import read_lines


def asked(*lines: str) -> Asked:
    return read_asked(read_lines("\n".join(lines).encode()))


@pytest.mark.parametrize(
    ("line", "tool", "backends"),
    [
        ("# command: ./llm_bench -m q/config.json -t 2", "llm_bench", ("cpu",)),
        ("# command: ./llm_bench -a opencl,cpu -rep 3", "llm_bench", ("opencl", "cpu")),
        ("# command: LD_LIBRARY_PATH=. taskset f0 ./llm_bench --backends Vulkan", "llm_bench", ("vulkan",)),
        ("$ adb shell 'cd /data/local/tmp && ./llm_bench -a opencl -t 68 | tee x'", "llm_bench", ("opencl",)),
        ("fennel:/data/local/tmp $ ./llm_demo q/config.json p.txt 8", "llm_demo", ()),
        ("# command: ./MNNV2Basic.out q.mnn 10 0 7 4 2", "MNNV2Basic", ("vulkan",)),
        ("# command: ./MNNV2Basic.out q.mnn", "MNNV2Basic", ("cpu",)),
        ("# command: ./ModuleBasic.out q.mnn dir 0 3 10 4", "ModuleBasic", ("opencl",)),
        ("# command: timeout 60 ./timeProfile.out q.mnn 10 13", "timeProfile", ("cpu",)),
        ("# command: ./backendTest.out q.mnn 42 0.01", "backendTest", ("type 42",)),
        ("# command: ./benchmark.out models 10 5 3", "benchmark.out", ("opencl",)),
        ("# command: ./GetMNNInfo q.mnn", "GetMNNInfo", ()),
        ("# the benchmark was started by hand", None, ()),
        ("usage: ./llm_bench [options]", None, ()),
    ],
)
def test_a_command_line_tells_the_tool_and_the_backend(line: str, tool: str | None, backends: tuple[str, ...]) -> None:
    got = asked(line)
    assert (got.tool, got.backends) == (tool, backends)


@pytest.mark.parametrize(
    ("note", "backend"),
    [
        ("# requested backend: OpenCL", "opencl"),
        ("# backend: vulkan, precision low", "vulkan"),
        ("# mllm (vision) backend: opencl ; llm backend: cpu", "cpu"),
        ('# config.json: {"backend_type": "opencl"}', "opencl"),
        ("# asked backend = npu", "npu"),
    ],
)
def test_a_note_tells_the_backend(note: str, backend: str) -> None:
    assert asked("# some phone", note).backends == (backend,)


def test_a_command_line_is_believed_before_a_note() -> None:
    assert asked("# backend: cpu", "# command: ./llm_bench -a opencl").backends == ("opencl",)


@pytest.mark.parametrize(
    ("line", "repeats"),
    [
        ("# command: ./MNNV2Basic.out q.mnn 10 0 0 2", 10),
        ("# command: ./MNNV2Basic.out q.mnn", 1),
        ("# command: ./ModuleBasic.out q.mnn dir 0 0 20", 20),
        ("# command: ./ModuleBasic.out q.mnn dir 0 0", 0),
        ("# command: ./benchmark.out models 7 5", 7),
        ("# command: ./benchmark.out models", None),
        ("# command: ./GetMNNInfo q.mnn 3", None),
    ],
)
def test_how_often_the_tools_for_single_models_run_is_in_their_commands(line: str, repeats: int | None) -> None:
    assert asked(line).repeats == repeats


def test_repeats_and_exit_status_are_told() -> None:
    got = asked("# command: ./llm_bench -rep 7", "# exit status: 134")
    assert (got.repeats, got.exit_code) == (7, 134)


@pytest.mark.parametrize(
    ("note", "counted"),
    [
        ("# requested tokens: 64 ; actual generated tokens: 2..5", (2, 5)),
        ("# really generated tokens: 9 (seen in the log)", (9, 9)),
        ("# gen_seq_len=4", (4, 4)),
        ("# only 3 tokens came out", (3, 3)),
        ("# requested decode tokens: 64", None),
        ("# only 3 phones have it", None),
    ],
)
def test_a_count_of_tokens_that_came_out_is_told_from_one_that_was_asked_for(
    note: str, counted: tuple[int, int] | None
) -> None:
    assert asked(note).generated == counted


def test_a_word_on_a_text_is_kept_with_its_configuration() -> None:
    note = "# backend=opencl precision=low text=Garbled"
    assert asked(note).seen == (TextSeen("opencl", "low", "garbled", "", note[2:]),)
    assert asked(note).backends == ()
    assert asked("# the output is: bears sleep").seen[0].looks is None


def test_the_phones_log_asks_for_nothing() -> None:
    assert asked("I/MNNJNI: $ ./llm_bench -a opencl", "plain text about backend: opencl") == Asked()
