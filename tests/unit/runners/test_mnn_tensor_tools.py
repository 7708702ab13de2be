"""MNNV2Basic, ModuleBasic and benchmark as runners: their commands, what they are fed, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import BundleManifest
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.mnn_weights import Weights
from harness.payload.models import ModelFolder
from harness.payload.probe_events import RunLog
from harness.payload.tensor_case import TensorCase
from harness.payload.tensor_inputs import Input
from harness.payload.tensor_model import TensorModel
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order
from harness.runners.events import Inference, Load, RunnerLog, TensorFile
from harness.runners.registry import RUNNERS

SAMPLES = Path(__file__).parents[2] / "data" / "mnn_tensor"
PROGRAMS = {"modulebasic": "ModuleBasic.out", "mnnv2basic": "MNNV2Basic.out", "benchmark": "benchmark.out"}
DEVICE = "The device supports: i8sdot:0, fp16:0, i8mm: 0, sve2: 0, sme2: 0\n"
X = np.array([[0.5, -2.0]], np.float32)
ONE = ({"x": X}, {"x": X + 1})
TWO = ({"left": X, "right/hand": X},)


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("tool_runs.py"))


def bundle(runner: str, *others: str) -> Bundle:
    programs = {name: PROGRAMS.get(name, name) for name in (runner, *others)}
    files = sorted(programs.values())
    manifest = {
        "name": "toy", "runner": runner, "engine_version": "3.6.1", "backends": ["cpu", "opencl"], "programs": programs,
        "variants": [{"abi": "x86_64", "files": files, "backends": ["cpu", "opencl"]}],
    }  # fmt: skip
    return Bundle(
        BundleManifest.model_validate(manifest),
        PayloadFolder(Path(), tuple(PayloadFile(name, 1, "b", True) for name in files)),
    )


def order(
    runner: str,
    *others: str,
    inputs: tuple[dict[str, Any], ...] = ONE,
    outputs: tuple[str, ...] = ("y",),
    files: tuple[str, ...] = ("net.mnn",),
    open_shape: bool = False,
    by_session: bool = True,
    **over: Any,
) -> Order:
    values = {"kind": "tensor", "models": ["net"], "backends": ["cpu"], "threads": [2], "precision": ["high"]}
    plan = Plan.model_validate({**values, "memory": ["normal"], "warmups": 3, "repeats": 2, **over})
    takes = tuple(Input(name, (1, -1 if open_shape else 2), np.dtype(np.float32)) for name in inputs[0])
    tensor = TensorModel("net.mnn", Weights.FULL, "0", takes, Path(), by_session=by_session)
    content = PayloadFolder(Path(), tuple(PayloadFile(name, 1, "m", False) for name in files))
    return Order(
        bundle=bundle(runner, *others),
        bundle_dir="/b",
        model=ModelFolder("net", content, 100, 32, tensor=tensor),
        model_dir="/m",
        work_dir="/w",
        cell=cells_of(plan)[0],
        plan=plan,
        tensors=TensorCase(
            tuple(str(number) for number in range(len(inputs))),
            inputs,
            tuple(dict.fromkeys(outputs, X) for _ in inputs),
            "onnxruntime",
            True,
            Weights.FULL,
        ),
    )


def mnnv2basic(ms: float = 2.5, *, forward: int = 0, made: int = 13, precision: int = 1, outputs: str = "y") -> str:
    names = "".join(f"output: {name}\n" for name in outputs.split())
    return (
        f"Use extra forward type: {forward}\ninputDims: 1 2 \n{DEVICE}test_main, 303, cost time: 1.500000 ms\n"
        f"Session Info: memory use 2.500000 MB, flops is 15.000000 M, backendType is {made}\n{names}"
        f"precision:{precision}, memory: 0, Run 1 time:\n  y \t[Softmax] run 1 average cost 2.000000 ms, 80.000 %, "
        f"FlopsRate: 100.000 %\nAvg= {ms:.6f} ms, OpSum = 2.000000 ms min= {ms:.6f} ms, max= {ms:.6f} ms\n"
    )


def modulebasic(ms: float = 2.5, outputs: str = "y") -> str:
    names = outputs.split()
    written = "".join(f"Write {name} output to output/2_{at}.txt\n" for at, name in enumerate(names))
    wanted = "".join(f"output: {name}\n" for name in names)
    return (
        f"{DEVICE}Test /m/net.mnn from input info: input\nx\n{wanted}"
        "Use extra forward type: 0\nprecision=1 in main, 260 \nmemory=0 in main, 261 \n"
        f"main, 362, cost time: 1.250000 ms\nRun for 2 time\n{written}"
        f"Avg= {ms:.6f} ms, min= {ms:.6f} ms, max= {ms:.6f} ms\n"
    )


def benchmark(*times: float, name: str = "CPU", threads: int = 2) -> str:
    rows = "".join(
        f"[ - ] {number:04d}.mnn                    max = {ms:8.3f} ms  min = {ms:8.3f} ms  avg = {ms:8.3f} ms\n"
        for number, ms in enumerate(times)
    )
    return (
        f"MNN benchmark\nForward type: {name} thread={threads} precision=1 sparsity=0 sparseBlockOC=1 "
        f"testQuantizedModel=0 enableKleidiAI=0\n--------> Benchmarking... loop = 1, warmup = 3\n{DEVICE}{rows}"
    )


def read(tools: ModuleType, of: Order, *stdouts: str, **runs: RunLog) -> RunnerLog:
    """Read a cell of which the measured step printed the first text, and each sample's check the others."""
    steps = RUNNERS[of.bundle.runner].steps(of)
    told = {step.name: tools.run([(9.0, said.encode())]) for step, said in zip(steps, stdouts, strict=False)}
    return RUNNERS[of.bundle.runner].read(of, {**told, **runs})


def test_mnnv2basic_is_fed_from_beside_a_link_to_it() -> None:
    main, check = RUNNERS["mnnv2basic"].steps(order("mnnv2basic"))
    assert main.argv[0:2] == ("sh", "-c")
    assert main.argv[4:] == ("2", "./MNNV2Basic.out", "/m/net.mnn", "1", "0", "0", "2", "1", "1x2")
    assert main.files == {"input_0.txt": b"0.5\n-2\n", "outputs/.keep": b""}
    assert main.links == {"MNNV2Basic.out": "/b/MNNV2Basic.out", "output.txt": "/w/outputs/000000.0.txt"}
    assert (main.env, main.speaks) == ({"LD_LIBRARY_PATH": "/b"}, False)
    assert (check.name, check.argv[:3]) == ("check-000001", ("./MNNV2Basic.out", "/m/net.mnn", "0"))
    assert check.files == {"input_0.txt": b"1.5\n-1\n"}
    assert check.links["output.txt"] == "/w/outputs/000001.0.txt"


def test_modulebasic_is_fed_a_folder() -> None:
    of = order("modulebasic", inputs=TWO, outputs=("sum", "prod"), precision=["low"], backends=["opencl"])
    [main] = RUNNERS["modulebasic"].steps(of)
    assert main.argv[4:] == ("2", "/b/ModuleBasic.out", "/m/net.mnn", "input", "0", "3", "1", "68", "2")
    assert json.loads(main.files["input/input.json"]) == {
        "inputs": [{"name": "left", "shape": [1, 2]}, {"name": "right/hand", "shape": [1, 2]}],
        "outputs": ["sum", "prod"],
        "repeat": 3,
    }
    assert main.files["input/right/hand.txt"] == b"0.5\n-2\n"
    # What the last warm-up writes stays.
    assert main.links == {"output/2_0.txt": "/w/outputs/000000.0.txt", "output/2_1.txt": "/w/outputs/000000.1.txt"}


def test_several_outputs_of_mnnv2basic_have_the_names_of_tensors() -> None:
    [main] = RUNNERS["mnnv2basic"].steps(order("mnnv2basic", inputs=ONE[:1], outputs=("box/xy", "score")))
    caught = {"output/box/xy.txt": "/w/outputs/000000.0.txt", "output/score.txt": "/w/outputs/000000.1.txt"}
    assert main.links == {"MNNV2Basic.out": "/b/MNNV2Basic.out", **caught}


@pytest.mark.parametrize(
    ("precision", "memory", "mask"), [("normal", "normal", "0"), ("low", "low", "10"), ("high", "high", "5")]
)
def test_precision_and_memory_are_one_number(precision: str, memory: str, mask: str) -> None:
    for runner, place in (("mnnv2basic", -2), ("modulebasic", -1)):
        step = RUNNERS[runner].steps(order(runner, precision=[precision], memory=[memory]))[0]  # type: ignore[index]
        assert step.argv[place] == mask


def test_benchmark_has_a_link_for_each_repeat_and_the_outputs_of_another() -> None:
    main, *checks = RUNNERS["benchmark"].steps(order("benchmark", "modulebasic", "mnnv2basic"))
    assert main.argv == ("/b/benchmark.out", "models", "1", "3", "0", "2", "1")
    assert main.links == {"models/0000.mnn": "/m/net.mnn", "models/0001.mnn": "/m/net.mnn"}
    assert "outputs/.keep" in main.files
    assert [(step.name, step.argv[0]) for step in checks] == [
        ("check-000000", "/b/ModuleBasic.out"),
        ("check-000001", "/b/ModuleBasic.out"),
    ]
    other = RUNNERS["benchmark"].steps(order("benchmark", "mnnv2basic"))[1]
    assert other.argv[0] == "./MNNV2Basic.out"


def test_our_runner_shows_the_outputs_of_benchmark_where_no_other_does(tools: ModuleType) -> None:
    of = order("benchmark", "farm_runner")
    main, check = RUNNERS["benchmark"].steps(of)
    assert (main.name, check.name) == (MAIN, "check")
    argv = " ".join(check.argv)
    assert argv.startswith("/b/farm_runner --tensor /m/net.mnn --inputs /w/check/inputs --outputs /w/check/outputs ")
    assert "--warmups 0 --repeats 0" in argv
    assert check.links == {"outputs": "/w/outputs"}
    assert "inputs/index.json" in check.files
    told = {"event": "output", "sample": "000000", "name": "y", "dtype": "float32", "shape": [1, 2], "file": "0.bin"}
    log = read(tools, of, benchmark(2.5, 2.5), json.dumps(told) + "\n")
    assert [(one.file, one.dtype) for one in log.outputs] == [("0.bin", "float32")]
    assert (log.errors, log.end is not None) == ((), True)
    failed = read(tools, of, benchmark(2.5, 2.5), check=tools.run([(9.0, b"")], exit_code=2, stderr=b"unknown option"))
    assert "the run that shows the outputs ended badly (exit, exit code 2): unknown option" in failed.errors[0].message
    assert failed.end is None


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda: order("mnnv2basic", inputs=TWO), "feeds one input and leaves the model's other 1 at zero"),
        (lambda: order("mnnv2basic", outputs=("../y", "z")), "cannot be the name of the file"),
        (lambda: order("mnnv2basic", outputs=("/y", "z")), "cannot be the name of the file"),
        (lambda: order("modulebasic", inputs=({"a\nb": X},)), "cannot be the name of the file"),
        (lambda: order("modulebasic", inputs=({"x": X * np.inf},)), "holds NaN or infinity"),
        (
            lambda: order("benchmark", "modulebasic", files=("net.mnn", "net.mnn.weight")),
            "weights lie in a file of their own",
        ),
        (lambda: order("benchmark", "modulebasic", open_shape=True), "with open dimensions"),
        (
            lambda: order("benchmark", "modulebasic", by_session=False),
            "benchmark cannot run a model that only MNN's Module",
        ),
        (lambda: order("mnnv2basic", by_session=False), "MNNV2Basic cannot run a model that only MNN's Module"),
    ],
)
def test_what_a_tool_cannot_be_fed_is_refused(of: Callable[[], Order], says: str) -> None:
    asked = of()
    with pytest.raises(ConfigError, match=says) as refused:
        RUNNERS[asked.bundle.runner].steps(asked)
    assert refused.value.reason is Reason.BAD_PLAN


@pytest.mark.parametrize(
    ("of", "refused"),
    [
        (order("mnnv2basic"), None),
        (order("modulebasic"), None),
        (order("benchmark", "mnnv2basic"), None),
        (order("benchmark"), (Reason.BUNDLE_MISMATCH, "has no program that does")),
        (order("benchmark", "modulebasic", memory=["low"]), (Reason.BAD_PLAN, "add --memory normal")),
    ],
)
def test_what_cannot_be_measured_is_said_before(of: Order, refused: tuple[Reason, str] | None) -> None:
    got = RUNNERS[of.bundle.runner].cannot(of.bundle, of.cell, of.plan)
    assert (got is None) == (refused is None)
    assert got is None or refused is None or (got[0] is refused[0] and refused[1] in got[1])


@pytest.mark.parametrize("runner", PROGRAMS)
def test_language_models_are_not_theirs(tools: ModuleType, runner: str) -> None:
    plan = tools.plan(memory=["normal"])
    got = RUNNERS[runner].cannot(bundle(runner, "modulebasic"), cells_of(plan)[0], plan)  # type: ignore[index]
    assert got is not None
    assert (got[0], "no language models" in got[1]) == (Reason.BUNDLE_MISMATCH, True)


def test_each_process_of_mnnv2basic_is_a_sample(tools: ModuleType) -> None:
    log = read(tools, order("mnnv2basic"), mnnv2basic(2.5) + mnnv2basic(2.75), mnnv2basic())
    assert log.inferences == (
        Inference(index=0, kind="timed", sample="000000", latency_ms=2.5),
        Inference(index=1, kind="timed", sample="000000", latency_ms=2.75),
    )
    assert log.outputs == tuple(
        TensorFile(sample=sample, name="y", dtype="text", shape=(), file=f"{sample}.0.txt")
        for sample in ("000000", "000001")
    )
    proof = "Session Info: memory use 2.500000 MB, flops is 15.000000 M, backendType is 13"
    assert log.load == Load(load_ms=1.5, backend_requested="cpu", backend_actual="cpu", strength="engine", proof=proof)
    assert (log.errors, log.unread, log.end is not None) == ((), (), True)
    assert log.hello is not None
    assert (log.hello.runner, log.hello.engine_version) == ("mnnv2basic", "3.6.1")
    assert "whole microseconds" in log.definition


def test_each_process_of_modulebasic_is_a_sample_and_its_backend_is_known_of_the_cpu_alone(tools: ModuleType) -> None:
    log = read(tools, order("modulebasic"), modulebasic(2.5) + modulebasic(3.5), modulebasic())
    assert [one.latency_ms for one in log.inferences] == [2.5, 3.5]
    assert [one.file for one in log.outputs] == ["000000.0.txt", "000001.0.txt"]
    assert log.load == Load(
        load_ms=1.25, backend_requested="cpu", backend_actual="cpu", strength="log", proof=DEVICE.strip()
    )
    asked = order("modulebasic", inputs=ONE[:1], backends=["opencl"])
    gpu = read(tools, asked, (modulebasic() * 2).replace("forward type: 0", "forward type: 3"))
    assert gpu.load is not None
    assert (gpu.load.backend_actual, gpu.load.strength) == (None, "none")


def test_each_row_of_benchmark_is_a_sample_and_the_outputs_are_anothers(tools: ModuleType) -> None:
    shown = modulebasic().replace("output/2_", "output/0_")
    log = read(tools, order("benchmark", "modulebasic"), benchmark(2.5, 2.25), shown, shown)
    assert [one.latency_ms for one in log.inferences] == [2.5, 2.25]
    assert [one.file for one in log.outputs] == ["000000.0.txt", "000001.0.txt"]
    assert log.load == Load(backend_requested="cpu", backend_actual="cpu", strength="log", proof=DEVICE.strip())
    assert (log.errors, log.end is not None) == ((), True)


@pytest.mark.parametrize(
    ("runner", "said", "says"),
    [
        ("mnnv2basic", mnnv2basic() * 3, "3 times are told, asked were 2"),
        ("mnnv2basic", mnnv2basic() + mnnv2basic(forward=3), "process 2 tells backend number 3 instead of 0"),
        ("mnnv2basic", mnnv2basic(precision=2) * 2, "process 1 tells precision 2 instead of 1"),
        ("mnnv2basic", mnnv2basic(outputs="") * 2, "sample 000000: y is not among the outputs that it names"),
        ("modulebasic", modulebasic(outputs="z") * 2, "sample 000000: y is not among the outputs that it names"),
        ("benchmark", benchmark(2.5), "1 rows are told"),
        ("benchmark", benchmark(2.5, 2.5, threads=4), "it tells threads 4 instead of 2"),
        ("benchmark", benchmark(2.5, 2.5, name="OpenCL"), "it tells backend opencl instead of cpu"),
        ("benchmark", benchmark(2.5, 2.5).replace("0001.mnn", "more.mnn"), "asked were 2 of the model"),
    ],
)
def test_what_was_not_asked_for_is_no_figure(tools: ModuleType, runner: str, said: str, says: str) -> None:
    of = order(runner, *(["modulebasic"] if runner == "benchmark" else []), inputs=ONE[:1])
    log = read(tools, of, said)
    assert says in log.errors[0].message
    assert log.end is None


def test_a_session_on_another_backend_is_told_whichever_process_had_it(tools: ModuleType) -> None:
    asked = order("mnnv2basic", inputs=ONE[:1], backends=["opencl"])
    log = read(
        tools, asked, mnnv2basic(forward=3, made=3) + mnnv2basic(forward=3, made=13) + mnnv2basic(forward=3, made=3)
    )
    assert log.load is not None
    assert (log.load.backend_actual, log.load.strength) == ("cpu", "engine")
    assert log.load.proof.endswith("backendType is 13")


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (None, "did not take place"),
        ({"exit_code": 139}, "ended badly"),
        ({"why": "deadline", "exit_code": None}, "ended badly"),
    ],
)
def test_a_sample_whose_check_failed_has_no_output(tools: ModuleType, ended: dict[str, Any] | None, says: str) -> None:
    runs = {} if ended is None else {"check-000001": tools.run([(9.0, mnnv2basic().encode())], **ended)}
    log = read(tools, order("mnnv2basic"), mnnv2basic() * 2, **runs)
    assert "sample 000001" in log.errors[0].message
    assert says in log.errors[0].message
    assert [one.sample for one in log.outputs] == ["000000"]
    assert log.end is None


def test_a_mean_of_several_runs_is_no_sample(tools: ModuleType) -> None:
    captured = (SAMPLES / "MNNV2Basic_fp32.txt").read_text()
    log = read(tools, order("mnnv2basic", inputs=ONE[:1]), captured)
    assert log.inferences == ()
    assert [line[:14] for line in log.unread] == ["Avg= 0.137150 "]
    assert log.end is None


@pytest.mark.parametrize("name", [path.stem for path in sorted(SAMPLES.glob("*.txt"))])
def test_no_capture_of_a_failure_becomes_a_figure(tools: ModuleType, name: str) -> None:
    runner = {"MNNV2Basic": "mnnv2basic", "ModuleBasic": "modulebasic"}.get(name.split("_")[0], "benchmark")
    log = read(tools, order(runner, "modulebasic", inputs=ONE[:1]), (SAMPLES / f"{name}.txt").read_text())
    assert log.end is None
    assert all(one.latency_ms >= 0 for one in log.inferences)


def test_a_phones_log_is_read_like_what_is_printed(tools: ModuleType) -> None:
    of = order("mnnv2basic", inputs=ONE[:1])
    runs = {MAIN: tools.run([])}
    log = RUNNERS["mnnv2basic"].read(of, runs, {MAIN: (mnnv2basic() * 2).encode()})
    assert [one.latency_ms for one in log.inferences] == [2.5, 2.5]
    assert log.tool.startswith(b"I/MNNJNI( 1): Use extra forward type: 0\n")
