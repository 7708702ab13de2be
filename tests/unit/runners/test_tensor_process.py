"""Runners as programs with a model that is no language model: what comes out is what numpy computes, and all faults."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.runners.events import parse_runner_output

RANDOM = np.random.default_rng(5)
Arrays = dict[str, Any]


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolved(folder: Path, nchw: Any) -> Any:
    weights = np.load(folder / "weights.npz")
    windows = np.lib.stride_tricks.sliding_window_view(nchw.astype(np.float64), (3, 3), axis=(2, 3))
    summed = np.einsum("nchwij,ocij->nohw", windows, weights["kernel"].astype(np.float64))
    return summed + weights["bias"].reshape(1, -1, 1, 1)


def put_samples(folder: Path, samples: list[Arrays]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, arrays in enumerate(samples):
        tensors = []
        for place, (name, array) in enumerate(arrays.items()):
            file = f"s{number}.{place}.bin"
            (folder / file).write_bytes(array.tobytes())
            tensors.append({"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "file": file})
        index.append({"name": f"s{number}", "tensors": tensors})
    (folder / "index.json").write_text(json.dumps({"samples": index}))
    return folder


class Tensors:
    """One runner in one folder: runs a model on samples, and reads its outputs as the events tell them."""

    def __init__(self, runner: Any, folder: Path) -> None:
        self.runner, self.folder = runner, folder

    def __call__(self, model: Path, samples: list[Arrays] | Path, *options: str) -> Any:
        inputs = samples if isinstance(samples, Path) else put_samples(self.folder / "inputs", samples)
        work, outputs = self.folder / "work", self.folder / "outputs"
        words = ["--tensor", str(model), "--inputs", str(inputs), "--outputs", str(outputs), "--work-dir", str(work)]
        argv = [*self.runner.argv, *words, "--threads", "1", "--warmups", "0", "--repeats", "1", *options]
        done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
        self.log = parse_runner_output(done.stdout)
        assert self.log.junk == ()
        self.code, self.events = done.returncode, [json.loads(line) for line in done.stdout.splitlines()]
        return self.log

    def outputs(self) -> dict[tuple[str, str], Any]:
        found = {}
        for told in self.log.outputs:
            raw = (self.folder / "outputs" / told.file).read_bytes()
            found[told.sample, told.name] = np.frombuffer(raw, told.dtype).reshape(told.shape)
        return found

    def error(self) -> tuple[str, str]:
        [error] = self.log.errors
        assert (self.code, self.events[-1]) == (1, {"event": "end", "status": "error"})
        return error.stage, error.message


@pytest.fixture
def run(mnn_runner: Any, tmp_path: Path) -> Tensors:
    return Tensors(mnn_runner, tmp_path)


def test_it_warms_up_times_the_first_sample_and_runs_each_once_for_its_outputs(run: Tensors, mnn_graphs: Path) -> None:
    samples = [{"x": normal(1, 3, 7, 6)}, {"x": normal(2, 3, 9, 8)}]
    log = run(mnn_graphs / "nchw_to_blocks.mnn", samples, "--warmups", "2", "--repeats", "3")
    assert run.code == 0
    assert [(one.index, one.kind, one.sample) for one in log.inferences] == [
        (0, "warmup", "s0"), (1, "warmup", "s0"), (2, "timed", "s0"), (3, "timed", "s0"), (4, "timed", "s0"),
        (5, "check", "s0"), (6, "check", "s1"),
    ]  # fmt: skip
    assert [event["event"] for event in run.events] == [
        "hello", "load", *["inference"] * 6, "output", "inference", "output", "end",
    ]  # fmt: skip
    made = run.outputs()
    assert set(made) == {("s0", "y"), ("s1", "y")}
    for number, sample in enumerate(samples):
        np.testing.assert_allclose(made[f"s{number}", "y"], convolved(mnn_graphs, sample["x"]), rtol=1e-4, atol=1e-4)


def test_times_are_those_of_the_monotonic_clock_one_after_the_other(run: Tensors, mnn_graphs: Path) -> None:
    log = run(mnn_graphs / "nchw_to_blocks.mnn", [{"x": normal(1, 3, 40, 40)}], "--repeats", "4")
    assert log.load is not None
    begun = [one.begun_ns or 0 for one in log.inferences]
    ends = [one.begun_ns + one.latency_ms * 1e6 for one in log.inferences if one.begun_ns]
    assert (log.load.begun_ns or 0) + (log.load.load_ms or 0) * 1e6 <= begun[0]
    assert all(0 < end <= following for end, following in zip(ends, begun[1:], strict=False))
    assert all(one.rss_bytes and one.rss_bytes > 1_000_000 for one in log.inferences)


def test_the_load_tells_the_backend_in_the_engines_own_word(run: Tensors, mnn_graphs: Path) -> None:
    log = run(mnn_graphs / "linear.mnn", [{"x": normal(2, 3)}], "--precision", "high", "--memory", "normal")
    load = log.load
    assert load is not None
    assert (load.backend_requested, load.backend_actual, load.strength) == ("cpu", "cpu", "engine")
    assert (load.threads, load.precision, load.memory, load.round) == (1, "high", "normal", 0)
    assert load.proof.startswith("asked for cpu; the session runs on cpu (code ")
    assert run.events[1]["ran_as"] == "session"
    assert load.rss_bytes is not None
    assert load.rss_before_bytes is not None
    assert load.rss_bytes >= load.rss_before_bytes > 1_000_000


def test_each_input_and_output_keeps_its_own_type_and_layout(run: Tensors, mnn_graphs: Path) -> None:
    floats, ints = normal(2, 3), RANDOM.integers(-1000, 1000, (3, 4)).astype(np.int32)
    given = {"floats": floats, "ints": ints, "bytes": np.array([0, 1, 128, 255], np.uint8)}
    run(mnn_graphs / "mixed.mnn", [given], "--precision", "high")
    made = {name: array for (_, name), array in run.outputs().items()}
    np.testing.assert_allclose(made["product"], floats @ ints.astype(np.float32), rtol=1e-4)
    assert made["sums"].tolist() == ints.sum(0).tolist()
    assert made["halves"].tolist() == [0, 0.5, 64, 127.5]
    x = normal(2, 7, 6, 3)
    run(mnn_graphs / "nhwc_to_both.mnn", [{"x": x}], "--precision", "high")
    y = convolved(mnn_graphs, x.transpose(0, 3, 1, 2))
    made = {name: array for (_, name), array in run.outputs().items()}
    np.testing.assert_allclose(made["nchw"], y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made["nhwc"], y.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-4)


def test_what_a_session_cannot_do_runs_as_a_module(run: Tensors, mnn_graphs: Path) -> None:
    x = normal(2, 3)
    log = run(mnn_graphs / "by_content.mnn", [{"x": x, "times": np.array([2, 3], np.int32)}], "--require-backend")
    assert (run.code, run.events[1]["ran_as"]) == (0, "module")
    assert log.load is not None
    assert (log.load.backend_actual, log.load.strength) == ("cpu", "engine")
    assert run.outputs()["s0", "y"].tolist() == np.tile(x, (2, 3)).tolist()


def test_an_output_without_an_element_is_an_empty_file(run: Tensors, mnn_graphs: Path) -> None:
    run(mnn_graphs / "above_two.mnn", [{"x": np.zeros((2, 3), np.float32)}])
    assert run.outputs()["s0", "where"].shape == (0, 2)


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
def test_a_backend_that_is_asked_for_and_not_used_is_told_and_nothing_is_timed(
    run: Tensors, mnn_graphs: Path, backend: str
) -> None:
    log = run(mnn_graphs / "linear.mnn", [{"x": normal(2, 3)}], "--backend", backend, "--require-backend")
    stage, message = run.error()
    assert (stage, log.inferences) == ("fallback", ())
    assert re.match(rf"{backend} was asked for and not used: (Can't Find type=|OpenCL init error, fallback)", message)
    assert log.load is not None
    assert (log.load.backend_actual, log.load.strength) == ("cpu", "log")


def no_file(folder: Path) -> None:
    (folder / "s0.0.bin").unlink()


def cut_off(folder: Path) -> None:
    (folder / "s0.0.bin").write_bytes((folder / "s0.0.bin").read_bytes()[:-4])


def no_json(folder: Path) -> None:
    (folder / "index.json").write_text('{"samples": [')


def no_sample(folder: Path) -> None:
    (folder / "index.json").write_text('{"samples": []}')


def no_index(folder: Path) -> None:
    (folder / "index.json").unlink()


def no_shape(folder: Path) -> None:
    (folder / "index.json").write_text((folder / "index.json").read_text().replace("[2, 3]", "[2, -3]"))


def doubles(folder: Path) -> None:
    (folder / "index.json").write_text((folder / "index.json").read_text().replace("float32", "float64"))


def another_name(folder: Path) -> None:
    (folder / "index.json").write_text((folder / "index.json").read_text().replace('"x"', '"pixels"'))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_index, "index.json"),
        (no_json, "index.json is not JSON"),
        (no_sample, "holds no sample"),
        (no_file, "s0.0.bin"),
        (cut_off, ""),
        (no_shape, ""),
        (doubles, "x is float64, which the engine does not take"),
        (another_name, "the model takes x, "),
    ],
)
def test_samples_that_are_not_right_are_told_before_anything_runs(
    run: Tensors, mnn_graphs: Path, spoil: Callable[[Path], None], said: str
) -> None:
    inputs = put_samples(run.folder / "inputs", [{"x": normal(2, 3)}])
    spoil(inputs)
    log = run(mnn_graphs / "linear.mnn", inputs)
    stage, message = run.error()
    assert stage == "input"
    assert said in message
    assert "\n" not in message
    assert log.inferences == ()


@pytest.mark.parametrize("spoilt", ["missing", "empty", "half", "text", "pointer"])
def test_a_model_that_is_not_whole_is_told_at_its_load(run: Tensors, mnn_graphs: Path, spoilt: str) -> None:
    good, model = mnn_graphs / "nchw_to_blocks.mnn", run.folder / "model.mnn"
    content = {"empty": b"", "half": good.read_bytes()[: good.stat().st_size // 2], "text": b"no model at all\n" * 99}
    if spoilt != "missing":
        model.write_bytes(content.get(spoilt, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"))
    log = run(model, [{"x": normal(1, 3, 7, 6)}])
    stage, message = run.error()
    assert (stage, log.loads, log.inferences) == ("load", (), ())
    assert "model.mnn" in message


def test_outputs_that_cannot_be_written_are_told(run: Tensors, mnn_graphs: Path) -> None:
    (run.folder / "outputs").write_text("a file in the way")
    run(mnn_graphs / "linear.mnn", [{"x": normal(2, 3)}])
    assert run.error()[0] == "output"


@pytest.mark.parametrize(
    "words", [("--tensor", "m.mnn"), ("--tensor", "m.mnn", "--model", "m"), ("--inputs", "a", "--model", "m"), ()]
)
def test_a_command_line_that_makes_no_sense_is_one_sentence_and_status_2(runner: Any, words: tuple[str, ...]) -> None:
    done = subprocess.run([*runner.argv, *words], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.decode().strip().splitlines()) == 1


def test_the_runner_without_an_engine_says_that_it_runs_language_models_only(runner: Any, tmp_path: Path) -> None:
    words = ("--tensor", "m.mnn", "--inputs", str(tmp_path), "--outputs", str(tmp_path))
    done = subprocess.run([*runner.argv, *words], capture_output=True, timeout=60, check=False, cwd=tmp_path)
    if runner.name == "synthetic":
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"runs language models only" in done.stderr
    else:
        assert done.returncode == 1


def test_the_files_of_samples_may_lie_in_any_order_and_under_any_name(run: Tensors, mnn_graphs: Path) -> None:
    inputs = put_samples(run.folder / "inputs", [{"x": normal(2, 3)}])
    shutil.move(inputs / "s0.0.bin", inputs / "ünïcode name.raw")
    index = json.loads((inputs / "index.json").read_text())
    index["samples"][0]["tensors"][0]["file"] = "ünïcode name.raw"
    (inputs / "index.json").write_text(json.dumps(index))
    run(mnn_graphs / "linear.mnn", inputs)
    assert run.code == 0
    assert len(run.outputs()) == 1
