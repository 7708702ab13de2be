"""What is no fault is not called one: healthy logs, and texts that have nothing to do with phones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands.triage_judge import judged_entries
from harness.triage.finding import Finding
from harness.triage.triage import Source, triage

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
GOOD_RUNS = [
    "GetMNNInfo",
    "MNNV2Basic_cpu",
    "ModuleBasic_cpu",
    "llm_bench_default",
    "llm_bench_kv_deprecated",
    "llm_bench_pg",
    "llm_bench_sweep",
    "llm_demo_ok",
    "llm_demo_unknown_backend",
    "timeProfile_cpu",
]
HEALTHY = [
    *(DATA / "mnn" / f"{name}.txt" for name in GOOD_RUNS),
    *sorted((DATA / "triage" / "healthy").glob("*.txt")),
]
UNRELATED = [
    *sorted((DATA / "triage" / "unrelated").glob("*.txt")),
    *(ROOT / name for name in ("Makefile", "LICENSE", "pyproject.toml", "docs/models.md", "docs/reasons.md")),
]


def found(data: bytes) -> tuple[Finding, ...]:
    return triage([Source.of_text("x", data)], judges=(judged_entries,))


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", HEALTHY, ids=name_of)
def test_a_healthy_log_has_no_finding_of_severity_error(path: Path) -> None:
    assert [one.title for one in found(path.read_bytes()) if one.severity == "error"] == []


def test_there_are_more_than_ten_healthy_logs() -> None:
    assert len(HEALTHY) >= 18
    assert len({path.read_bytes() for path in HEALTHY}) == len(HEALTHY)


@pytest.mark.parametrize("path", UNRELATED, ids=name_of)
def test_an_unrelated_text_has_no_finding_at_all(path: Path) -> None:
    assert found(path.read_bytes()) == ()


@pytest.mark.parametrize("text", [b"", b"\n", b"\0", b"hello\n", b"\xff\xfe", b"\xff" * 100, b"{}\n", b"[]"])
def test_nothing_is_known_of_nothing(text: bytes) -> None:
    assert found(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "zsh: command not found: brew",
        "PermissionError: [Errno 13] Permission denied: './notes.txt'",
        "open /data/user/0/com.example.notes/files/a.txt: permission denied",
        "I Runner: Command: /data/user/0/com.example.notes/files/tool --version",
        "./configure: line 2812: syntax error near unexpected token `newline'",
        "./build.sh: line 3: syntax error near unexpected token `('",
        "A pure virtual function is called by its derived class.",
        "The library has a SONAME; NEEDED holds libc.so.6 on Linux.",
        "Couldn't find the resource strings.xml",
        "05-05 10:00:00.000  700  700 I Zygote  : Process 8123 exited cleanly (0)",
        "Undefined instructions of the emulator are listed in chapter 3",
        "Pages of 16 KB are not aligned with columns.",
        "The text is not valid UTF-8.",
        "pending exception handlers are run in order",
        "std::out_of_range was thrown and caught",
        "SIGSEGV (11) is sent by the kernel",
    ],
)
def test_sentences_that_come_near_a_fault_of_native_code_are_none(text: str) -> None:
    assert found(text.encode() + b"\n") == ()


def test_the_harmless_lines_of_a_first_run_are_known_as_harmless() -> None:
    text = (
        b"Can't open file:/data/local/tmp/q/tmp/mnn_cachefile.bin\nLoad Cache file error.\n"
        b"Can't open file:/sys/devices/system/cpu/cpufreq/boost\n"
    )
    assert [(one.code, one.severity) for one in found(text)] == [("cold_cache_info", "info"), ("harmless", "info")]
