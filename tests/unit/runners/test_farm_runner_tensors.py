"""``farm_runner --tensor`` as a program: what it tells, what it writes, and how it fails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.payload.mnn_weights import Weights
from harness.payload.models import find_model, read_tensor_model
from harness.payload.tensor_case import TensorCase, case_of
from harness.payload.tensor_files import read_tensors
from harness.runners.events import RunnerLog, parse_runner_output

Run = Callable[..., "Ran"]


@dataclass(frozen=True)
class Ran:
    exit_code: int
    log: RunnerLog
    stderr: str
    outputs: Path

    def array(self, number: int) -> Any:
        told = self.log.outputs[number]
        return np.fromfile(self.outputs / told.file, told.dtype).reshape(told.shape)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """The folder of inputs as the harness writes it."""
    model = read_tensor_model(find_model("tiny-cnn")).tensor
    assert model is not None
    folder = tmp_path / "inputs"
    folder.mkdir()
    for name, content in case_of(model, "", 2, 0, print).files().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def run(mnn_runner: Any) -> Run:
    """Run a model by the twin, and by the program in C++ where an SDK is named."""

    def ran(model: Path, inputs: Path, *options: str) -> Ran:
        outputs = inputs.parent / "outputs"
        argv = [*mnn_runner.argv, "--tensor", str(model), "--inputs", str(inputs), "--outputs", str(outputs)]
        argv += ["--threads", "1", "--precision", "high", "--work-dir", str(inputs.parent / "work"), *options]
        done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
        return Ran(done.returncode, parse_runner_output(done.stdout), done.stderr.decode(), outputs)

    return ran


def tiny() -> Path:
    return find_model("tiny-cnn") / "tiny-cnn.mnn"


def test_it_times_the_first_sample_and_writes_the_outputs_of_all(run: Run, inputs: Path) -> None:
    ran = run(tiny(), inputs, "--warmups", "1", "--repeats", "2", "--require-backend")
    assert (ran.exit_code, ran.log.junk, ran.log.errors) == (0, (), ())
    assert [(one.index, one.kind, one.sample) for one in ran.log.inferences] == [
        (0, "warmup", "000000"), (1, "timed", "000000"), (2, "timed", "000000"), (3, "check", "000000"),
        (4, "check", "000001"),
    ]  # fmt: skip
    begun = [one.begun_ns for one in ran.log.inferences]
    assert None not in begun
    assert begun == sorted(begun)  # type: ignore[type-var]
    assert all(one.latency_ms > 0 for one in ran.log.inferences)
    load = ran.log.load
    assert load is not None
    assert (load.backend_actual, load.strength, load.threads, load.precision) == ("cpu", "engine", 1, "high")
    assert load.load_ms is not None
    assert ran.log.end is not None
    for number in (0, 1):
        wanted = read_tensors(find_model("tiny-cnn") / "expected" / f"{number}.npz")["y"]
        assert np.abs(ran.array(number) - wanted).max() < 1e-5


def given(folder: Path, **arrays: Any) -> Path:
    """Write one sample as the harness does."""
    folder.mkdir()
    case = TensorCase(("one",), (arrays,), ({},), "", True, Weights.FULL)
    for name, content in case.files().items():
        (folder / name).write_bytes(content)
    return folder


def test_what_a_session_cannot_run_is_run_as_a_module(run: Run, tmp_path: Path, mnn_graphs: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = given(tmp_path / "inputs", x=x, times=np.array([2, 3], np.int32))
    ran = run(mnn_graphs / "by_content.mnn", inputs, "--repeats", "1", "--require-backend")
    assert ran.exit_code == 0, ran.stderr
    assert np.array_equal(ran.array(0), np.tile(x, (2, 3)))
    assert ran.log.load is not None
    assert (ran.log.load.backend_actual, ran.log.load.strength) == ("cpu", "engine")
    gpu = run(mnn_graphs / "by_content.mnn", inputs, "--backend", "opencl", "--require-backend")
    assert (gpu.exit_code, [error.stage for error in gpu.log.errors]) == (1, ["fallback"])
    assert "nothing proves that opencl runs a module" in gpu.log.errors[0].message


def test_bytes_with_a_sign_and_outputs_without_an_element_are_handed_over(
    run: Run, tmp_path: Path, mnn_graphs: Path
) -> None:
    signed = given(tmp_path / "signed", x=np.array([-128, 0, 127], np.int8))
    ran = run(mnn_graphs / "signed_bytes.mnn", signed, "--repeats", "1")
    assert (ran.log.outputs[0].dtype, ran.array(0).tolist()) == ("float32", [-128, 0, 127])
    nothing = given(tmp_path / "nothing", x=np.zeros((2, 3), np.float32))
    ran = run(mnn_graphs / "above_two.mnn", nothing, "--repeats", "1")
    assert [one.shape for one in ran.log.outputs] == [(0, 2)]


def test_a_backend_that_is_not_there_is_told_and_nothing_is_timed(run: Run, inputs: Path) -> None:
    ran = run(tiny(), inputs, "--backend", "opencl", "--require-backend")
    assert (ran.exit_code, ran.log.inferences) == (1, ())
    assert [error.stage for error in ran.log.errors] == ["fallback"]
    assert ran.log.load is not None
    assert (ran.log.load.backend_actual, ran.log.load.strength) == ("cpu", "log")


def test_a_model_that_is_cut_off_is_a_load_error(run: Run, tmp_path: Path, inputs: Path) -> None:
    (tmp_path / "cut.mnn").write_bytes(tiny().read_bytes()[:4000])
    ran = run(tmp_path / "cut.mnn", inputs)
    assert (ran.exit_code, [error.stage for error in ran.log.errors]) == (1, ["load"])
    assert "the engine does not load" in ran.log.errors[0].message


def test_an_input_of_another_name_or_size_is_an_input_error(run: Run, inputs: Path) -> None:
    index = json.loads((inputs / "index.json").read_text())
    index["samples"][0]["tensors"][0]["name"] = "image"
    (inputs / "index.json").write_text(json.dumps(index))
    ran = run(tiny(), inputs)
    assert [(error.stage, "takes x, " in error.message) for error in ran.log.errors] == [("input", True)]
    index["samples"][0]["tensors"][0] |= {"name": "x", "shape": [1, 3, 12, 13]}
    (inputs / "index.json").write_text(json.dumps(index))
    ran = run(tiny(), inputs)
    assert [error.stage for error in ran.log.errors] == ["input"]


def test_options_that_do_not_belong_together_are_one_sentence(mnn_runner: Any) -> None:
    done = subprocess.run([*mnn_runner.argv, "--tensor", "x.mnn"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--tensor, --inputs and --outputs belong together" in done.stderr
