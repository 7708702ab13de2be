"""Outputs of MNN's tools get the verdict that a careful engineer would give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bench.asked import Asked
from harness.bench.believe import Belief, believe
from harness.core.reasons import Reason, Verdict

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"
CASES = Path(__file__).parents[4] / "shared" / "cases"

# file: the verdict on the whole, and those on its figures in order (None: may be believed).
EXPECTED: dict[str, tuple[str, list[str | None]]] = {
    "GetMNNInfo": ("ok", []),
    "MNNV2Basic_cpu": ("ok", [None]),
    "MNNV2Basic_dynamic_no_shape": ("failed engine_error", []),
    "MNNV2Basic_no_model": ("failed load_error", []),
    "MNNV2Basic_opencl_missing": ("unsupported backend_not_built", []),
    "MNNV2Basic_truncated": ("failed load_error", []),
    "ModuleBasic_bad_dir": ("failed bad_plan", []),
    "ModuleBasic_cpu": ("ok", [None]),
    "README": ("rejected unparsed_output", []),
    # "Correct !" of a comparison of the CPU with itself.
    "backendTest_opencl_missing": ("rejected backend_fallback", ["backend_fallback"]),
    "llm_bench_bad_option": ("failed bad_plan", []),
    "llm_bench_default": ("rejected noisy", [None, "noisy"]),
    "llm_bench_kv_deprecated": ("ok", [None, None]),
    "llm_bench_no_model": ("failed load_error", ["load_error"] * 2),
    "llm_bench_no_weight": ("failed load_error", ["load_error"] * 2),
    "llm_bench_opencl_fell_back": ("rejected backend_fallback", ["backend_fallback"] * 2),
    "llm_bench_pg": ("rejected noisy", [None, "noisy"]),
    "llm_bench_sweep": ("rejected token_count_short", [None, "token_count_short", None, None] * 4),
    "llm_bench_truncated_weight": ("failed load_error", ["load_error"]),
    "llm_bench_vulkan_ignored": ("rejected backend_fallback", ["backend_fallback"] * 2),
    "llm_demo_lfs_pointer": ("failed load_error", []),
    "llm_demo_no_args": ("failed bad_plan", []),
    "llm_demo_no_weight": ("failed load_error", []),
    "llm_demo_ok": ("ok", [None, None]),
    "llm_demo_truncated_graph": ("failed load_error", []),
    "llm_demo_truncated_weight": ("failed load_error", ["load_error"] * 2),
    "llm_demo_unknown_backend": ("rejected backend_unproven", ["backend_unproven"] * 2),
    "llm_demo_vulkan_fell_back": ("rejected backend_fallback", ["backend_fallback"] * 2),
    "timeProfile_cpu": ("ok", [None]),
}
# Cases of the kinds that are about figures: verdict and reason of the whole.
CASE_REASONS = {
    "01": Reason.BACKEND_FALLBACK,
    "02": Reason.BACKEND_FALLBACK,
    "17": Reason.TOKEN_COUNT_SHORT,
    "18": Reason.NOISY,
    "21": Reason.OUTPUT_DEGENERATE,
    "22": Reason.OUTPUT_DEGENERATE,
}
KINDS = ("benchmark_invalid_result", "backend_fallback", "output_degenerate")
HEAD = "| model | modelSize | backend | threads | precision | test | speed(tok/s) |\n"


def row(backend: str = "CPU", test: str = "pp96+tg48", speed: str = "300.00 ± 3.00<br>30.00 ± 0.50", t: int = 4) -> str:
    return f"| q | 400.00 MiB | {backend} | {t} | Low | {test} | {speed} |\n"


def demo(text: str, head: str = "", decode: str = "25.00", tokens: int = 50) -> str:
    return (
        f"config path is q/config.json\n{head}prompt file is p.txt\n{text}\n#################################\n"
        f"prompt tokens num = 80\ndecode tokens num = {tokens}\nprefill time = 0.50 s\n decode time = 2.00 s\n"
        f"prefill speed = 160.00 tok/s\n decode speed = {decode} tok/s\n##################################\n"
    )


def reasons(belief: Belief) -> list[str | None]:
    return [judged.reason.code if judged.reason else None for judged in belief.figures]


def verdict(belief: Belief) -> str:
    reason = belief.whole.reason
    return " ".join([belief.whole.verdict.value, *([reason.code] if reason else [])])


def test_no_captured_output_is_without_an_expectation() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in SAMPLES.iterdir())


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_every_captured_output_is_judged_as_a_careful_engineer_would(name: str, ends: bytes) -> None:
    (path,) = SAMPLES.glob(f"{name}.*")
    belief = believe(path.read_bytes().replace(b"\n", ends))
    assert (verdict(belief), reasons(belief)) == EXPECTED[name]
    assert belief.ok == (belief.whole.verdict is Verdict.OK)
    assert all(judged.detail for judged in (belief.whole, *belief.figures))


@pytest.mark.parametrize("name", [name for name in sorted(EXPECTED) if name != "README"])
def test_an_output_from_the_phones_log_is_judged_alike(name: str) -> None:
    lines = (SAMPLES / f"{name}.txt").read_text().split("\n")
    logged = [f"06-01 12:00:00.000  100  101 E MNNJNI  : {line}" if _goes_to_the_log(line) else line for line in lines]
    belief = believe("\n".join(logged))
    assert verdict(belief) == EXPECTED[name][0]


def _goes_to_the_log(line: str) -> bool:
    """What MNN prints by itself; tables, usage and the model's text go to stdout in every build."""
    return line.startswith(
        ("Can't", "Don't", "[Error]", "ReadQuan", "Memory", "Create ", "Load Cache", "LLM init")
    ) or (" tokens num =" in line or " speed =" in line or " time = " in line or line.startswith(("main, ", "Session")))


def test_every_case_about_figures_gets_its_reason() -> None:
    if not CASES.is_dir():
        pytest.skip(f"{CASES} is not here")
    judged = {}
    for path in sorted(CASES.glob("*.txt")):
        head, body = path.read_bytes().split(b"---\n", 1)
        if any(f"kind: {kind}".encode() in head for kind in KINDS):
            judged[path.name[:2]] = believe(body).whole.reason
            assert believe(path.read_bytes()).whole.reason is judged[path.name[:2]]
    assert judged == CASE_REASONS
    (inflated,) = CASES.glob("17*.txt")
    uncounted = b"".join(line for line in inflated.read_bytes().splitlines(True) if b"actual" not in line)
    assert set(reasons(believe(uncounted))) == {"implausible_speed"}


def test_clean_rows_are_believed_and_what_was_not_seen_is_said() -> None:
    belief = believe(HEAD + row())
    assert reasons(belief) == [None, None]
    assert "the output was not seen" in belief.figures[0].detail
    assert (belief.figures[1].value, belief.figures[1].unit) == (30.0, "tok/s")


@pytest.mark.parametrize(
    ("command", "table", "log", "expected"),
    [
        ("-a opencl", row("OPENCL"), "", "backend_unproven"),
        ("-a opencl", row("OPENCL"), "Update cache to tmp/mnn_cachefile.bin, size = 31415\n", None),
        ("-a opencl", row("OPENCL"), "Can't Find type=3 backend, use 0 instead\n", "backend_fallback"),
        ("-a opencl", row("OPENCL"), "OpenCL init error, fallback ... \n", "backend_fallback"),
        ("-a opencl", row("OPENCL"), "Don't support type Range memObject:1, /x\n", "backend_fallback"),
        ("-a opencl", row("CPU"), "", "backend_fallback"),
        ("-a vulkan", row("CPU"), "", "backend_fallback"),
        ("-a npu -t 4", row("CPU"), "", "backend_fallback"),
        ("--backends hexagon", row("HEXAGON"), "", "backend_unproven"),
        ("-t 4", row("CPU"), "", None),
        ("-a cpu", row("CPU"), "Can't open file:tmp/mnn_cachefile.bin\nLoad Cache file error.\n", None),
    ],
)
def test_a_row_is_believed_only_for_the_backend_that_ran(
    command: str, table: str, log: str, expected: str | None
) -> None:
    belief = believe(f"# command: LD_LIBRARY_PATH=. ./llm_bench -m q/config.json {command} -rep 3\n{log}{HEAD}{table}")
    assert reasons(belief) == [expected, expected]


def test_of_several_backends_each_row_is_judged_by_its_own() -> None:
    log = "Can't Find type=3 backend, use 0 instead\n"
    both = believe(f"$ ./llm_bench -a cpu,opencl\n{log}{HEAD}{row('CPU')}{row('OPENCL')}")
    assert reasons(both) == [None, None, "backend_fallback", "backend_fallback"]
    unclear = believe(f"$ ./llm_bench -a cpu,vulkan\n{HEAD}{row('CPU')}{row('CPU')}")
    assert set(reasons(unclear)) == {"backend_unproven"}


def test_the_caller_knows_better_than_the_text() -> None:
    output = demo("Paris is a city in France.")
    assert reasons(believe(output)) == [None, None]
    assert reasons(believe(output, Asked(backends=("vulkan",)))) == ["backend_unproven"] * 2
    fell = demo("Paris is a city.", head="I/MNNJNI: Can't Find type=7 backend, use 0 instead\n")
    assert set(reasons(believe(fell, Asked(backends=("vulkan",))))) == {"backend_fallback"}


@pytest.mark.parametrize(
    ("forward", "made", "expected"),
    [(3, 3, None), (3, 0, "backend_fallback"), (7, 13, "backend_fallback"), (0, 13, None), (4, 3, None)],
)
def test_the_engines_own_number_proves_the_backend(forward: int, made: int, expected: str | None) -> None:
    output = (
        f"Use extra forward type: {forward}\n"
        f"Session Info: memory use 2.000000 MB, flops is 9.000000 M, backendType is {made}\n"
        "Avg= 4.000000 ms, OpSum = 3.900000 ms min= 3.500000 ms, max= 5.000000 ms\n"
    )
    assert reasons(believe(output)) == [expected]


@pytest.mark.parametrize(
    "note", ["requested backend: opencl, by adb shell", "backend_type=opencl", "LLM backend: opencl"]
)
def test_a_fallback_line_alone_is_a_fallback(note: str) -> None:
    belief = believe(f"# {note}\nE/MNNJNI( 77): Can't Find type=3 backend, use 0 instead\n")
    assert (verdict(belief), belief.whole.detail) == ("rejected backend_fallback", "asked for opencl, ran on cpu")
    assert belief.whole.evidence == "Can't Find type=3 backend, use 0 instead"


@pytest.mark.parametrize("test", ["tg128", "tg1"])
def test_a_rate_of_tokens_that_were_only_asked_for_says_so(test: str) -> None:
    belief = believe(HEAD + row(test=test, speed="30.00 ± 0.10"))
    assert reasons(belief) == ["token_count_short"]
    assert "how many tokens came out is not told" in belief.whole.detail


def test_a_noisy_decode_beside_a_steady_prefill_names_sampling() -> None:
    belief = believe(HEAD + row(speed="300.00 ± 3.00<br>30.00 ± 9.00"))
    assert reasons(belief) == [None, "noisy"]
    assert "sampling probably ended the generations at different lengths" in belief.whole.detail
    unsteady = believe(HEAD + row(speed="300.00 ± 60.00<br>30.00 ± 9.00"))
    assert reasons(unsteady) == ["noisy", "noisy"]
    assert "sampling" not in unsteady.whole.detail


def test_the_limit_of_spread_is_the_callers() -> None:
    output = HEAD + row(speed="300.00 ± 3.00<br>30.00 ± 3.50")
    assert reasons(believe(output, cv_limit=0.12)) == [None, None]
    assert reasons(believe(output, cv_limit=float("nan"))) == ["noisy", "noisy"]


@pytest.mark.parametrize("speed", ["8000000.00", "250000.00", "0.00", "-3.00", "nan", "inf", "2600.00"])
def test_a_speed_beyond_physics_is_no_speed(speed: str) -> None:
    """2600 tokens a second of 400 MiB would read more than a terabyte a second."""
    belief = believe(HEAD + row(speed=f"300000.00 ± 1.00<br>{speed} ± 0.00"))
    assert reasons(belief)[1] == "implausible_speed"


def test_decode_is_not_faster_than_prefill() -> None:
    assert reasons(believe(HEAD + row(speed="30.00 ± 0.10<br>90.00 ± 0.10"))) == [None, "implausible_speed"]


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({64: 40.0, 256: 36.0, 1024: 25.0}, None),
        ({64: 40.0, 1024: 14.0}, None),
        ({64: 900.0, 256: 150.0, 512: 500.0, 1024: 160.0}, "implausible_speed"),
        ({64: 40.0, 256: 95.0}, "implausible_speed"),
        ({64: 900.0, 128: 60.0}, "implausible_speed"),
    ],
)
def test_decode_speeds_that_cannot_stand_beside_each_other_are_not_believed(
    speeds: dict[int, float], expected: str | None
) -> None:
    table = HEAD + "".join(
        row(test=f"pp{prompt}+tg64", speed=f"1000.00 ± 1.00<br>{speed:.2f} ± 0.10") for prompt, speed in speeds.items()
    )
    assert reasons(believe(table))[1::2] == [expected] * len(speeds)
    lines = "".join(f"prompt={prompt} decode=64 {speed:.2f}\n" for prompt, speed in speeds.items())
    assert reasons(believe(lines)) == [expected or "token_count_short"] * len(speeds)
    told = believe("# actually generated tokens: 5\n" + lines)
    assert set(reasons(told)) == {"token_count_short"}
    assert "5 tokens came out, 64 were divided" in told.whole.detail


def test_a_counted_rate_is_not_doubted_for_one_that_is_not() -> None:
    table = HEAD + row(test="tg48", speed="200.00 ± 1.00") + row(speed="300.00 ± 1.00<br>30.00 ± 0.10")
    assert reasons(believe(table)) == ["implausible_speed", None, None]


def test_other_threads_are_another_configuration() -> None:
    table = HEAD + row(speed="300.00 ± 1.00<br>10.00 ± 0.10", t=1) + row(speed="300.00 ± 1.00<br>30.00 ± 0.10", t=4)
    assert believe(table).ok


def test_a_summary_that_contradicts_itself_is_not_believed() -> None:
    assert reasons(believe(demo("Bears sleep in winter.", decode="128.00"))) == [None, "implausible_speed"]
    assert reasons(believe(demo("B.", decode="0.50", tokens=1))) == [None, "token_count_short"]


def test_a_json_file_that_contradicts_its_table_is_shown() -> None:
    output = (SAMPLES / "llm_bench_opencl_fell_back.txt").read_text()
    assert len(believe(output).figures) == 2
    belief = believe(output.replace("671.3121609724566", "771.3121609724566"))
    assert [judged.name for judged in belief.figures][2:] == ["unread line"]
    alone = believe(output[output.index('{"model"') :], Asked(backends=("opencl",)))
    assert [judged.value for judged in alone.figures] == [671.3121609724566, 47.95659614083657]
    assert set(reasons(alone)) == {"backend_unproven"}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("- **Prefill:** 180.5 t/s\n- **Decode:** INFINITY t/s ± NaN\n", [None, "implausible_speed"]),
        ("Prefill: 180.5 ± 2.0 tok/s\nDecode: 22.5 ± 9.5 tok/s\n", [None, "noisy"]),
        ("Prefill Speed: 180.50 tokens/s\nDecode Speed: 22.50 tokens/s\n", [None, "token_count_short"]),
        ("Prefill: 0.50s, 90 tokens, 180.00 tokens/s\nDecode: 2.00s, 50 tokens, 25.00 tokens/s\n", [None, None]),
        (
            "[MNN_BENCH] run=1 backend=cpu prompt=90 decode=50 prefill_tok_s=180.00 decode_tok_s=25.00\n",
            [None, "token_count_short"],
        ),
    ],
)
def test_an_apps_speeds_are_judged_by_the_same_rules(shown: str, expected: list[str | None]) -> None:
    assert reasons(believe(shown)) == expected


def test_of_several_commands_in_a_transcript_each_is_judged_by_itself() -> None:
    first = f"fennel:/data/local/tmp $ ./llm_bench -m q/config.json -a opencl\nDon't support 3\n{HEAD}{row('OPENCL')}"
    second = f"fennel:/data/local/tmp $ ./llm_bench -m q/config.json -a cpu\n{HEAD}{row('CPU')}"
    both = believe(first + second)
    assert reasons(both) == ["backend_fallback"] * 2 + [None] * 2
    assert verdict(both) == "rejected backend_fallback"
    assert believe(second + second).whole.detail == "4 figures; nothing speaks against"


def test_a_command_goes_on_after_a_backslash() -> None:
    command = "$ ./llm_bench \\\n  -m q/config.json \\\n  -a vulkan \\\n"
    assert reasons(believe(f"{command}\n{HEAD}{row('CPU')}")) == ["backend_fallback"] * 2
    assert verdict(believe(command)) == "failed silent_exit"


def test_a_proof_is_named_beside_the_figure() -> None:
    proven = believe(f"# backend: vulkan\nUpdate cache to t/mnn_cachefile.bin, size = 9\n{demo('Bears sleep.')}")
    assert proven.ok
    assert "a GPU's runtime compiled its kernels in this run" in proven.figures[1].detail


@pytest.mark.parametrize("text", ["", "猫" * 30, "the the the the the the the the", "!!!!!!!!!!!!!!!!!!!!!!"])
def test_a_broken_text_takes_its_speeds_with_it(text: str) -> None:
    belief = believe(demo(text))
    assert (verdict(belief), reasons(belief)) == ("rejected output_degenerate", ["output_degenerate"] * 2)


def test_a_text_that_is_elsewhere_is_not_called_empty() -> None:
    logged = "\n".join(f"I/MNNJNI: {line}" for line in demo("x").split("\n") if " = " in line)
    belief = believe(logged)
    assert reasons(belief) == [None, None]
    assert "the output was not seen" in belief.figures[0].detail


def test_a_loop_without_any_speed_is_a_loop() -> None:
    belief = believe("# llm backend: vulkan\nprompt tokens num = 12\ndecode tokens num = 99\n" + "ありがとう" * 15)
    assert verdict(belief) == "rejected output_degenerate"


def test_a_persons_word_on_a_text_counts() -> None:
    belief = believe("# backend=cpu text=ok\n# backend=vulkan precision=low output: gibberish\n")
    assert [(judged.name, judged.verdict) for judged in belief.figures] == [
        ("text cpu", Verdict.OK),
        ("text vulkan low", Verdict.REJECTED),
    ]
    assert verdict(belief) == "rejected output_degenerate"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", "failed silent_exit"),
        ("# exit status: 0\n# --- stdout\n", "failed silent_exit"),
        ("config path is q/config.json\n", "failed silent_exit"),
        ("hello\n", "rejected unparsed_output"),
        ("# exit status: 134\n# command: ./timeProfile.out q.mnn\nOpen Model q.mnn\n", "failed crash"),
        ("config path is q/config.json\nSegmentation fault (core dumped)\n", "failed crash"),
        ("F/libc: Fatal signal 4 (SIGILL), code 1 (ILL_ILLOPC), fault addr 0x1\n", "failed illegal_instruction"),
        ("LLVM ERROR: out of registers\nAborted \n", "failed gpu_driver_error"),
        ("OpenCL enqueue read error:-5\nCL ERROR CODE : -5, info:Conv\n", "failed gpu_driver_error"),
        ("lowmemorykiller: Kill 'x' (1), uid 2\nKilled\n", "failed out_of_memory"),
        ("Killed\n", "failed crash"),
        ('CANNOT LINK EXECUTABLE "./llm_bench": library "libllm.so" not found\n', "failed link_error"),
        ("E MNNJNI  : [Error]: LLM in error state. Status: 4\n", "failed engine_error"),
        ("Error: Response generation failed due to internal error\n", "failed engine_error"),
        ("Load MNN from q.mnn Failed\n# exit status: 1\n", "failed load_error"),
        ("Create Runtime Failed because no creator for 7\n", "unsupported backend_not_built"),
        ("Usage: ./GetMNNInfo ${test.mnn}\n", "failed bad_plan"),
        ("| q | 1.00 MiB | CPU | 4 | Low | tg9 | 5.00 ± 1.00 |\n", "rejected unparsed_output"),
    ],
)
def test_an_output_without_figures_says_why(said: str, expected: str) -> None:
    assert verdict(believe(said)) == expected


def test_a_failed_exit_takes_the_figures_with_it() -> None:
    assert set(reasons(believe(f"# exit status: 3\n{HEAD}{row()}"))) == {"engine_error"}


def test_no_figure_that_is_not_believed_turns_ok_when_lines_are_lost() -> None:
    for path, line in _each_line(sorted(SAMPLES.glob("llm_bench_*.txt"))):
        belief = believe(line)
        if belief.ok:
            assert EXPECTED[path.stem][0] in ("ok", "rejected noisy", "rejected token_count_short")


def _each_line(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        lines = path.read_text().split("\n")
        for end in range(0, len(lines), 2):
            yield path, "\n".join(lines[:end])


def test_bytes_of_any_kind_are_judged() -> None:
    assert verdict(believe(bytes(range(256)) * 4)).startswith(("rejected", "failed"))
