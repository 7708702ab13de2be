"""Models run by the real engine in a process of its own, against numpy; and every way in which that fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import ConfigError, FarmError, HarnessError, ModelIncompleteError, ModelRunError
from harness.core.reasons import Reason
from harness.payload import tensor_run
from harness.payload.models import find_model
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensor_run import RunOptions, run_model
from harness.payload.tensors import compare

RANDOM = np.random.default_rng(3)


def fails(model: Path, inputs: Mapping[str, Any] | None = None, **options: Any) -> FarmError:
    with pytest.raises(FarmError) as caught:
        run_model(model, inputs, options=RunOptions(**options))
    assert "\n" not in str(caught.value)
    return caught.value


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolved(folder: Path, nchw: Any) -> Any:
    weights = np.load(folder / "weights.npz")
    windows = np.lib.stride_tricks.sliding_window_view(nchw.astype(np.float64), (3, 3), axis=(2, 3))
    bias = weights["bias"].reshape(1, -1, 1, 1)
    return np.einsum("nchwij,ocij->nohw", windows, weights["kernel"].astype(np.float64)) + bias


# --- what comes out is what numpy computes, whatever the layout and the type ---


@pytest.mark.parametrize("graph", ["nchw_to_blocks", "blocks_to_blocks"])
def test_blocks_of_four_channels_are_given_and_taken_as_nchw(mnn_graphs: Path, graph: str) -> None:
    x = normal(2, 3, 7, 6)
    run = run_model(mnn_graphs / f"{graph}.mnn", {"x": x})
    assert compare(run.outputs, {"y": convolved(mnn_graphs, x)}).ok
    assert np.array_equal(run.inputs["x"], x)
    assert (run.backend, run.backend_code in (0, 13)) == ("cpu", True)
    assert run.engine.count(".") == 2


def test_nhwc_stays_nhwc_and_every_output_has_its_own_layout(mnn_graphs: Path) -> None:
    x = normal(2, 7, 6, 3)
    run = run_model(mnn_graphs / "nhwc_to_both.mnn", {"x": x})
    y = convolved(mnn_graphs, x.transpose(0, 3, 1, 2))
    assert compare(run.outputs, {"nchw": y, "nhwc": y.transpose(0, 2, 3, 1)}).ok


def test_inputs_of_several_types_go_by_name_and_by_value(mnn_graphs: Path) -> None:
    ints = RANDOM.integers(-1000, 1000, (3, 4))
    given = {"floats": RANDOM.standard_normal((2, 3)), "ints": ints, "bytes": np.array([0, 1, 128, 255])}
    run = run_model(mnn_graphs / "mixed.mnn", given)
    expected = {"product": given["floats"] @ ints, "sums": ints.sum(0), "halves": given["bytes"] / 2}
    assert compare(run.outputs, expected).ok
    assert {name: str(array.dtype) for name, array in run.inputs.items()} == {
        "floats": "float32",
        "ints": "int32",
        "bytes": "uint8",
    }


def test_what_a_session_cannot_do_runs_as_a_module(mnn_graphs: Path) -> None:
    x = normal(2, 3)
    run = run_model(mnn_graphs / "by_content.mnn", {"x": x, "times": np.array([2, 3])})
    assert np.array_equal(run.outputs["y"], np.tile(x, (2, 3)))
    assert (run.backend, run.backend_code) == ("cpu", None)
    signed = run_model(mnn_graphs / "signed_bytes.mnn", {"x": np.array([-128, 0, 127])})
    assert signed.outputs["y"].tolist() == [-128, 0, 127]
    none = run_model(mnn_graphs / "above_two.mnn", {"x": np.zeros((2, 3))})
    assert none.outputs["where"].shape == (0, 2)


def test_an_open_dimension_takes_the_size_that_is_given(mnn_graphs: Path) -> None:
    x = normal(5, 3)
    assert np.array_equal(run_model(mnn_graphs / "open.mnn", {"x": x}).outputs["y"], np.maximum(x, 0))


# --- random inputs ---


def test_a_seed_gives_the_same_inputs_again_and_another_one_others(mnn_graphs: Path) -> None:
    first, again, other = (run_model(mnn_graphs / "mixed.mnn", seed=seed) for seed in (7, 7, 8))
    assert compare(first.inputs, again.inputs, 0).ok
    assert compare(first.outputs, again.outputs, 0).ok  # a model against itself is exact
    assert not compare(first.inputs, other.inputs).ok
    assert set(first.inputs["ints"].ravel()) <= {0, 1}
    assert first.inputs["bytes"].max() > 1


# --- precision ---


def test_half_precision_is_off_by_no_more_than_it_carries(mnn_graphs: Path) -> None:
    """Half floats have 11 bits: 2**-11 a rounding, and sums of 27 products here; processors without them compute in
    32 bits at ``low``, too."""
    model = mnn_graphs / "nchw_to_blocks.mnn"
    low, high = (run_model(model, seed=1, options=RunOptions(precision=word)) for word in ("low", "high"))
    assert compare(low.outputs, high.outputs, 27 * 2**-11).ok


# --- what the engine cannot do is one sentence ---


def test_files_that_are_no_model(mnn_graphs: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.mnn"
    error = fails(model)
    assert isinstance(error, ConfigError)
    assert str(error).endswith("m.mnn cannot be read (No such file or directory): check the path")
    model.touch()
    assert fails(model).message.endswith("m.mnn is empty")
    model.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert fails(model).remedy == "run: git lfs pull"
    whole = (mnn_graphs / "linear.mnn").read_bytes()
    for content in (whole[: len(whole) // 2], bytes(500)):
        model.write_bytes(content)
        error = fails(model)
        assert (type(error), error.reason) == (ModelRunError, Reason.LOAD_ERROR)
        assert error.message.endswith(
            'cannot load it; it is cut off or no MNN model; it said: "Invalidate buffer to create MNN Module"'
        )


def test_half_a_weight_file_is_refused_before_the_engine_computes_with_it(tmp_path: Path) -> None:
    model = shutil.copytree(find_model("tiny-llama"), tmp_path / "tiny")
    weights = model / "llm.mnn.weight"
    size = weights.stat().st_size
    with weights.open("r+b") as file:
        file.truncate(size // 2)
    error = fails(model / "llm.mnn")
    assert isinstance(error, ModelIncompleteError)
    assert error.message.endswith(f"is cut off: it has {size // 2} bytes and the model reads {size}")
    weights.unlink()
    assert "llm.mnn.weight cannot be read" in fails(model / "llm.mnn").message


def test_inputs_that_do_not_fit(mnn_graphs: Path) -> None:
    model = mnn_graphs / "open.mnn"
    for inputs, said in (
        (None, "input x is ?×3: give one of full size with --input FILE.npz"),
        ({"x": np.zeros((2, 4))}, "input x has another shape: 2×4 was given for ?×3"),
    ):
        error = fails(model, inputs)
        assert isinstance(error, ConfigError)
        assert error.message.endswith(f"open.mnn: {said}")


def test_shapes_that_the_engine_cannot_work_out(mnn_graphs: Path) -> None:
    error = fails(mnn_graphs / "to_3x4.mnn", {"x": np.zeros((3, 6))})
    assert (type(error), error.reason) == (ModelRunError, Reason.ENGINE_ERROR)
    assert error.message.endswith('cannot work out its shapes for x 3×6; it said: "Reshape error: 18 -> 12"')


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
def test_another_backend_than_asked_is_no_result(mnn_graphs: Path, backend: str) -> None:
    error = fails(mnn_graphs / "linear.mnn", backend=backend)
    assert error.reason is Reason.BACKEND_FALLBACK
    assert f"asked for {backend}, the engine took cpu; it said: \"Can't Find type=" in error.message


def test_nothing_proves_the_backend_of_a_module_but_the_cpu(mnn_graphs: Path) -> None:
    given = {"x": normal(2, 3), "times": np.array([1, 1])}
    assert fails(mnn_graphs / "by_content.mnn", given, backend="opencl").reason in (
        Reason.BACKEND_UNPROVEN,
        Reason.BACKEND_FALLBACK,
    )


# --- the process ---


@pytest.mark.parametrize(
    ("program", "error", "reason", "said"),
    [
        (
            "import os, sys; print('an error of old', file=sys.stderr, flush=True); os.abort()",
            ModelRunError,
            Reason.CRASH,
            'the engine crashed (SIGABRT); it said: "an error of old"',
        ),
        ("raise SystemExit(5)", HarnessError, Reason.HARNESS_ERROR, "ended with 5 and without an answer"),
        ("import signal; signal.pause()", ModelRunError, Reason.HANG, "did not end within 1 s"),
    ],
)
def test_a_process_that_ends_badly_or_not_at_all(
    mnn_graphs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    error: type[FarmError],
    reason: Reason,
    said: str,
) -> None:
    (tmp_path / "stand_in.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tensor_run, "_MNN", "stand_in")
    got = fails(mnn_graphs / "linear.mnn", timeout_s=1)
    assert (type(got), got.reason) == (error, reason)
    assert said in got.message


def test_the_program_answers_with_one_line_and_writes_what_it_fed_and_got(mnn_graphs: Path, tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.npz", {"x": np.ones((2, 3))})
    argv = [sys.executable, "-m", "harness.payload._run_tensors", str(mnn_graphs / "linear.mnn")]
    argv += ["--input", "x.npz", "--outputs", "y.npz", "--threads", "1"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    [line] = done.stdout.splitlines()
    answer = json.loads(line)
    assert answer.pop("backend_code") in (0, 13)
    assert answer.pop("engine") == answer.pop("model_version")
    assert answer == {"backend": "cpu", "ran_as": "session", "inputs": {"x": [2, 3]}, "outputs": {"y": [2, 4]}}
    matrix = np.load(mnn_graphs / "weights.npz")["matrix"]
    assert compare(read_tensors(tmp_path / "y.npz"), {"y": np.ones((2, 3)) @ matrix}).ok
