"""The synthetic runner as a process: what was ordered is what it does, on every ABI that can be run here."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.bundle_manifest import Target
from harness.runners.events import parse_runner_output

Synthetic = Callable[..., "subprocess.CompletedProcess[bytes]"]
EMULATORS = {"x86_64": "", "arm64-v8a": "qemu-aarch64-static", "armeabi-v7a": "qemu-arm-static"}
FAST = ("load_ms=1", "prefill_ms=2", "first_token_ms=1", "token_ms=1")


def command(abi: str) -> list[str]:
    emulator = EMULATORS[abi]
    if not emulator and platform.machine() != abi:
        pytest.skip(f"this computer is {platform.machine()}")
    if emulator and shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    payload = read_bundle(data_root() / "device_bins" / "runner" / "synthetic").payload(Target((abi,)))
    return [*([emulator] if emulator else []), str(payload.root / payload.files[0].path)]


def no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture(params=list(EMULATORS))
def synthetic(request: pytest.FixtureRequest) -> Synthetic:
    return runner(command(request.param))


@pytest.fixture
def native() -> Synthetic:
    return runner(command("x86_64"))


def runner(program: list[str]) -> Synthetic:
    def run(*orders: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
        argv = [*program, "--model", "m", "--warmups", "1", "--repeats", "2", "--generate-tokens", "8"]
        argv += ["--prompt-tokens", "16", *options]
        argv += [word for order in (*FAST, *orders) for word in ("--synthetic", order)]
        return subprocess.run(argv, capture_output=True, timeout=30, preexec_fn=no_core)

    return run


def events(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_prints_the_events_of_farm_runner(synthetic: Synthetic) -> None:
    done = synthetic(options=("--threads", "3", "--precision", "high", "--engine", "use_mmap=true", "--ask", "Why?"))
    assert (done.returncode, done.stderr) == (0, b"")
    told = parse_runner_output(done.stdout)
    assert told.junk == ()
    assert told.hello is not None
    assert (told.hello.runner, told.hello.engine) == ("synthetic", "synthetic")
    assert told.load is not None
    assert (told.load.threads, told.load.precision, told.load.backend_actual) == (3, "high", "cpu")
    assert events(done)[1]["config"] == {"use_mmap": True}
    assert [generation.kind for generation in told.generations] == ["warmup", "timed", "timed", "answer"]
    assert [generation.index for generation in told.generations] == [0, 1, 2, 3]
    for timed in told.of_kind("timed"):
        assert (timed.prompt_tokens, timed.generated_tokens, len(timed.token_ms), timed.finish) == (16, 8, 7, "length")
        assert len(timed.token_ids) == 8
    assert told.generations[-1].question == "Why?"
    assert told.end is not None
    assert told.end.status == "ok"


def test_no_time_is_shorter_than_ordered(synthetic: Synthetic) -> None:
    told = parse_runner_output(synthetic("load_ms=5").stdout)
    assert told.load is not None
    assert told.load.load_ms >= 5
    for generation in told.generations:
        assert generation.prefill_ms >= 2
        assert generation.ttft_ms >= 3
        assert sum(generation.token_ms) > 0


@pytest.mark.parametrize("mode", ["sleep", "spin", "work"])
def test_only_spin_and_work_burn_the_processor(native: Synthetic, mode: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    native(f"mode={mode}", "prefill_ms=100")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    burnt_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # three generations of 100 ms; on a machine that is busy a spinning process gets only a part of them
    assert burnt_s > 0.05 if mode != "sleep" else burnt_s < 0.05


def test_after_the_ordered_second_all_takes_longer(native: Synthetic) -> None:
    told = parse_runner_output(native("slow_after_s=0.03", "slow_factor=5", "prefill_ms=10").stdout)
    first, last = told.generations[0], told.generations[-1]
    assert first.prefill_ms >= 10
    assert last.prefill_ms >= 50
    assert last.ttft_ms + sum(last.token_ms) >= 90


def test_the_prompt_may_cost_so_much_a_token(native: Synthetic) -> None:
    program = command("x86_64")
    argv = [*program, "--model=m", "--warmups=0", "--repeats=1", "--prompt-tokens=40", "--generate-tokens=2"]
    done = subprocess.run([*argv, "--synthetic", "prefill_token_ms=0.5"], capture_output=True, timeout=10)
    assert parse_runner_output(done.stdout).generations[0].prefill_ms >= 20


def test_memory_is_taken_as_ordered_and_leaks_as_ordered(native: Synthetic) -> None:
    program = command("x86_64")
    script = (
        "import os, sys\n"
        "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
        "print(os.wait4(pid, 0)[2].ru_maxrss, file=sys.stderr)"
    )
    for orders, wanted in ((("peak_mb=96",), 96), (("peak_mb=96", "leak_mb_per_gen=10"), 126)):
        argv = ["python3", "-S", "-c", script, *program, "--model", "m", "--warmups", "1", "--repeats", "2"]
        argv += [word for order in (*FAST, *orders) for word in ("--synthetic", order)]
        done = subprocess.run(argv, capture_output=True, timeout=30)
        assert abs(int(done.stderr) / 1024 - wanted) < 1.5


def test_text_ids_and_end_are_as_ordered(synthetic: Synthetic) -> None:
    asked = json.dumps({"text": 'Was ist "groß"?\n', "tokens": 3})
    done = synthetic("text=Größe", "answer=drei", "token_ids=7,8,9", "finish=eos:5", options=("--ask", asked))
    told = parse_runner_output(done.stdout)
    timed, answer = told.of_kind("timed")[0], told.of_kind("answer")[0]
    assert (timed.text, timed.token_ids, timed.generated_tokens, timed.finish) == ("Größe", (7, 8, 9, 7, 8), 5, "eos")
    assert (answer.text, answer.question, answer.generated_tokens) == ("drei", 'Was ist "groß"?\n', 3)


def test_too_few_tokens_are_claimed_to_be_all(native: Synthetic) -> None:
    timed = parse_runner_output(native("short_tokens=3").stdout).of_kind("timed")[0]
    assert (timed.generated_tokens, len(timed.token_ids), timed.finish) == (8, 5, "length")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL])
@pytest.mark.parametrize(("stage", "lines"), [("start", 0), ("load", 1), ("decode", 3)])
def test_it_dies_of_the_ordered_signal_where_it_was_ordered(
    native: Synthetic, number: signal.Signals, stage: str, lines: int
) -> None:
    done = native(f"fault={number.name}", f"at={stage}", "at_generation=1")
    assert (done.returncode, len(events(done))) == (-number, lines)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT", "SIGBUS"])
def test_the_fault_is_a_real_one_on_every_abi(synthetic: Synthetic, name: str) -> None:
    assert -synthetic(f"fault={name}").returncode == signal.Signals[name]


@pytest.mark.parametrize("stage", ["load", "decode"])
def test_it_hangs_where_it_was_ordered(stage: str) -> None:
    argv = [*command("x86_64"), "--model", "m", "--synthetic", "load_ms=0", "--synthetic", "fault=hang"]
    argv += ["--synthetic", f"at={stage}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"hello" in process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.kill()
        rest = process.stdout.read()
    assert rest.count(b'"load"') == (stage == "decode")
    assert b"generation" not in rest


def test_a_silent_exit_says_nothing_and_ends_well(native: Synthetic) -> None:
    done = native("fault=exit", "at=start")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert native("fault=exit", "at=load", "exit_code=7").returncode == 7


def test_output_is_spoiled_as_ordered(native: Synthetic) -> None:
    told = parse_runner_output(native("fault=garbage", "at=load").stdout)
    assert told.load is None
    assert told.junk
    broken = native("fault=non_utf8", "at=load").stdout
    with pytest.raises(UnicodeDecodeError):
        broken.decode()
    assert len(parse_runner_output(broken).junk) == 1
    torn = native("fault=truncate", "at=decode", "at_generation=1")
    assert torn.returncode == 0
    assert not torn.stdout.endswith(b"\n")
    assert len(parse_runner_output(torn.stdout).generations) == 1


def test_an_ordered_error_is_an_event_and_exit_code_1(native: Synthetic) -> None:
    done = native("fault=error", "at=load")
    told = parse_runner_output(done.stdout)
    assert done.returncode == 1
    assert [error.stage for error in told.errors] == ["load"]
    assert told.end is not None
    assert told.end.status == "error"


def test_a_false_backend_is_claimed_or_admitted_as_ordered(native: Synthetic) -> None:
    liar = native("fallback_marker=1", options=("--backend", "opencl"))
    told = parse_runner_output(liar.stdout)
    assert told.load is not None
    assert (told.load.backend_actual, told.load.strength) == ("opencl", "engine")
    assert liar.stderr == b"Can't Find type=3 backend, use 0 instead\n"
    honest = native("backend_actual=cpu", options=("--backend", "opencl", "--require-backend"))
    told = parse_runner_output(honest.stdout)
    assert [error.stage for error in told.errors] == ["fallback"]
    assert told.generations == ()
    unproven = parse_runner_output(native("backend_strength=none", "backend_proof=").stdout).load
    assert unproven is not None
    assert (unproven.strength, unproven.proof) == ("none", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--model is needed"),
        (("--model",), "--model needs a value"),
        (("--model", "m", "--frames", "3"), "unknown option --frames"),
        (("--model", "m", "--threads", "0"), "argument --threads: '0' is not a whole number of at least 1"),
        (("--model", "m", "--engine", "x"), "argument --engine: 'x' is not KEY=JSON"),
        (("--model", "m", "--synthetic", "token_ms"), "--synthetic takes KEY=VALUE; got token_ms"),
        (("--model", "m", "--synthetic", "token_ms=-1"), "--synthetic token_ms=-1 is no number of at least 0"),
        (("--model", "m", "--synthetic", "mood=bad"), "--synthetic mood=bad is no order: keys are load_ms"),
        (("--model", "m", "--synthetic", "fault=SIGHUP"), "--synthetic fault=SIGHUP is no order"),
    ],
)
def test_a_wrong_order_is_one_sentence_and_exit_code_2(options: tuple[str, ...], said: str) -> None:
    done = subprocess.run([*command("x86_64"), *options], capture_output=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.decode().startswith(f"synthetic: {said}")


def test_noise_is_as_ordered_and_ends_when_ordered() -> None:
    argv = [*command("x86_64"), "--model", "m", "--warmups", "0", "--repeats", "4", "--generate-tokens", "5"]
    for order in ("prefill_ms=0", "first_token_ms=20", "token_ms=20", "noise=0.9", "noisy_generations=2"):
        argv += ["--synthetic", order]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    timed = [one for one in events(done) if one.get("kind") == "timed"]
    took_ms = [one["ttft_ms"] + sum(one["token_ms"]) for one in timed]
    # A timer may ring late and never early.
    assert [took >= ordered for took, ordered in zip(took_ms, (190, 10, 100, 100), strict=True)] == [True] * 4
    assert took_ms[1] < min(took_ms[0], took_ms[2], took_ms[3])
    assert max(took_ms[2:]) < took_ms[0]


def test_stop_tokens_give_way_in_timed_generations_and_end_answers(synthetic: Synthetic) -> None:
    done = synthetic("token_ids=7,8,9", "stops=8,0", options=("--ask", "Why?"))
    told = parse_runner_output(done.stdout)
    timed, answer = told.of_kind("timed")[0], told.of_kind("answer")[0]
    assert (timed.token_ids, timed.finish) == ((7, 1, 9, 7, 1, 9, 7, 1), "length"), "1 comes next after 8 and 0"
    assert (answer.token_ids, answer.finish) == ((7, 8), "eos")
    assert events(done)[1]["stop_tokens"] == [8, 0]


@pytest.mark.parametrize(
    ("logits", "says"),
    [("nan", "the logits are not finite numbers"), ("inf", "not finite numbers"), ("zero", "the logits are all zero")],
)
@pytest.mark.parametrize(("stage", "made"), [("prefill", []), ("decode", [4])])
def test_logits_that_are_none_are_an_error_after_what_came_out(
    synthetic: Synthetic, logits: str, says: str, stage: str, made: list[int]
) -> None:
    done = synthetic(f"logits={logits}", f"at={stage}", options=("--margins",))
    told = parse_runner_output(done.stdout)
    assert done.returncode == 1
    assert [(error.stage, says in error.message) for error in told.errors] == [(stage, True)]
    assert [len(generation.token_ids) for generation in told.generations] == made
    assert {generation.finish for generation in told.generations} <= {"error"}


def test_what_is_printed_is_read_along_and_kept_off_the_events(synthetic: Synthetic) -> None:
    done = synthetic("fallback_marker=1", "logits=nan", options=("--backend", "vulkan"))
    assert parse_runner_output(done.stdout).junk == ()
    assert done.stderr == b"Can't Find type=7 backend, use 0 instead\n"
    [error] = parse_runner_output(done.stdout).errors
    assert error.message.endswith("the engine's last words: Can't Find type=7 backend, use 0 instead")


def test_half_a_character_becomes_the_replacement_character() -> None:
    argv = [os.fsencode(word) for word in (*command("x86_64"), "--model", "m", "--warmups", "0", "--repeats", "1")]
    argv += [b"--synthetic", b"text=a\xe2\x82b\xff\xc3\xa9"]
    done = subprocess.run(argv, capture_output=True, timeout=10, check=True)
    assert parse_runner_output(done.stdout).generations[0].text == "a\ufffdb\ufffd\u00e9"


@pytest.mark.parametrize(
    ("asked", "question", "length"),
    [
        ('{"tokens": 2, "text": "\\ud83d\\ude00 \\u00e4\\n"}', "\U0001f600 ä\n", 2),
        ('{"text": "plain", "more": [1, {"tokens": 9}], "tokens": null}', "plain", 3),
        ('{"text": "cut', '{"text": "cut', 3),
        ('{"tokens": 2}', '{"tokens": 2}', 3),
        ("[1]", "[1]", 3),
    ],
)
def test_questions_are_json_or_text(native: Synthetic, asked: str, question: str, length: int) -> None:
    answer = parse_runner_output(native(options=("--ask", asked, "--ask-tokens", "3")).stdout).of_kind("answer")[0]
    assert (answer.question, answer.generated_tokens) == (question, length)


@pytest.mark.parametrize(
    "value", ["", "tru", "01", "1.", "[1,]", '{"a" 1}', '"\\x"', "nan", "[1] 2", '"a\nb"', "[" * 300 + "]" * 300]
)
def test_what_is_no_json_is_no_value_of_the_engine(native: Synthetic, value: str) -> None:
    done = native(options=("--engine", f"key={value}"))
    assert (done.returncode, b"the value of key is not JSON" in done.stderr) == (2, True)


def test_help_lists_the_options(native: Synthetic) -> None:
    done = subprocess.run([*command("x86_64"), "--help"], capture_output=True, timeout=10, check=True)
    assert b"--ask-file FILE" in done.stdout
    assert done.stderr == b""
