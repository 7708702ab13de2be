"""MNN's MNNV2Basic, ModuleBasic and benchmark through the whole chain on a virtual phone.

Stand-ins print what they print. With a build of MNN for this computer, whose folder ``MNN_FARM_TOOLS`` names, the
tools themselves run, too.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli

from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.provider import Endpoint
from harness.payload.bundle import Bundle, read_bundle
from harness.payload.bundles_import import import_bundle
from harness.payload.models import ModelFolder, find_model, read_tensor_model
from harness.payload.tensor_case import case_of
from harness.plan.load import make_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.runners.tensor_text import text_of
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, TensorKept

FAKE = Path(__file__).parents[1] / "data" / "fake_mnn" / "tensor_tool.py"
BUILD = os.environ.get("MNN_FARM_TOOLS", "")
PROGRAMS = {"modulebasic": "ModuleBasic.out", "mnnv2basic": "MNNV2Basic.out", "benchmark": "benchmark.out"}
MODEL = "tiny-cnn"
SAMPLES = 2
PLAN = f"""
schema = 1
kind = "tensor"
models = ["{MODEL}"]
backends = ["cpu"]
threads = [1]
precision = ["high"]
memory = ["normal"]
cold_start = false
warmups = 2
repeats = 3
cell_timeout_s = 60
[tensor]
samples = {SAMPLES}
[roofline]
measure = false
[prepare]
screen = "keep"
stay_awake = false
doze_off = false
"""
MANIFEST = """
schema = 1
name = "fake-mnn"
runner = "modulebasic"
engine_version = "3.6.1"
backends = ["cpu", "opencl"]
[programs]
modulebasic = "ModuleBasic.out"
mnnv2basic = "MNNV2Basic.out"
benchmark = "benchmark.out"
[[variants]]
abi = "x86_64"
files = ["ModuleBasic.out", "MNNV2Basic.out", "benchmark.out", "answers.json", "faults.json"]
backends = ["cpu", "opencl"]
"""
Measure = Callable[..., CellRecord]


@pytest.fixture(scope="module")
def connected(virtual_phone: Endpoint) -> Iterator[ConnectedPhone]:
    phone = connect(virtual_phone, load_tier_rules())
    yield phone
    leave_as_found(phone, lambda _: None)


@pytest.fixture(scope="module")
def model() -> ModelFolder:
    return read_tensor_model(find_model(MODEL))


@pytest.fixture
def run_cell(connected: ConnectedPhone, model: ModelFolder, tmp_path: Path) -> Callable[..., CellRecord]:
    """Run one cell of the model with a bundle; return its record as it was written."""

    def run(bundle: Bundle, **changed: Any) -> CellRecord:
        plan = make_plan({**tomli.loads(PLAN), **changed}, "the test's plan")
        kept = RunFolder.create(tmp_path / "run")
        context = RunContext("tools", kept.path, plan, bundle, {MODEL: model})
        PhoneSession(connected, context, lambda _: None).run_cell(cells_of(plan)[0])
        [record] = kept.records()
        return record

    return run


@pytest.fixture
def measure(run_cell: Callable[..., CellRecord], model: ModelFolder, tmp_path: Path) -> Measure:
    """Run one cell with a stand-in that is bent by ``faults``."""

    def run(runner: str, **faults: Any) -> CellRecord:
        folder = tmp_path / "bundle"
        folder.mkdir()
        for name in PROGRAMS.values():
            shutil.copy(FAKE, folder / name)
        assert model.tensor is not None
        case = case_of(model.tensor, model.folder.hash, SAMPLES, 0, lambda _: None)
        answers = {
            text_of(fed["x"], "x").decode(): "".join(f"{number:.6g}\n" for number in expected["y"].ravel())
            for fed, expected in zip(case.inputs, case.expected, strict=True)
        }
        (folder / "answers.json").write_text(json.dumps(answers))
        (folder / "faults.json").write_text(json.dumps(faults))
        (folder / "bundle.toml").write_text(MANIFEST)
        return run_cell(read_bundle(folder).with_runner(runner))  # type: ignore[arg-type]

    return run


def verdict(record: CellRecord) -> tuple[str, str | None]:
    return record.verdict.value, record.reason


def kept(record: CellRecord) -> TensorKept:
    """Return what a record shows of the model's only output."""
    assert record.output is not None
    assert record.output.tensors is not None
    assert (record.output.tensors.samples, record.output.tensors.failed) == (SAMPLES, 0)
    [output] = record.output.tensors.outputs
    return output


@pytest.mark.parametrize(
    ("runner", "load_ms", "strength"),
    [("mnnv2basic", 1.5, "engine"), ("modulebasic", 1.25, "log"), ("benchmark", None, "log")],
)
def test_a_tools_times_have_their_proof(measure: Measure, runner: str, load_ms: float | None, strength: str) -> None:
    record = measure(runner)
    assert verdict(record) == ("ok", None), record.detail
    assert record.bundle.runner == runner
    assert record.metrics is not None
    assert record.metrics.latency_ms is not None
    assert (record.metrics.latency_ms.p50, record.metrics.latency_ms.n) == (2.5, 3)
    assert record.metrics.load_ms == load_ms
    assert record.backend is not None
    assert (record.backend.actual, record.backend.strength) == ("cpu", strength)
    assert kept(record).agreeing == 1.0
    assert "definition" in [finding.code for finding in record.findings]


@pytest.mark.parametrize("runner", PROGRAMS)
def test_a_fast_tool_with_other_numbers_is_rejected(measure: Measure, runner: str) -> None:
    record = measure(runner, output="0.1\n" * 9 + "0.2\n")
    assert verdict(record) == ("rejected", "output_wrong")
    assert record.detail.startswith("output y differs from the reference")


@pytest.mark.parametrize(
    ("runner", "faults", "expected", "says"),
    [
        ("mnnv2basic", {"output": "0.1\n"}, ("rejected", "output_wrong"), "has 1 numbers, the reference has 10"),
        ("modulebasic", {"output": "segmentation\n"}, ("rejected", "output_wrong"), "is no text of numbers"),
        ("mnnv2basic", {"made": 3}, ("rejected", "backend_fallback"), "asked for cpu, the engine made opencl"),
        (
            "mnnv2basic",
            {"mute": True, "said": ["Resize error, can't execute MNN"]},
            ("failed", "engine_error"),
            "Resize",
        ),
        ("modulebasic", {"mute": True, "said": ["Error: can't load module"]}, ("failed", "load_error"), "load module"),
        ("benchmark", {"mute": True}, ("failed", "bad_plan"), "the folder of models is empty"),
        ("benchmark", {"said": ["Can't open file:net.mnn.weight"]}, ("failed", "load_error"), "Can't open file"),
    ],
)
def test_what_goes_wrong_with_exit_status_0_is_found(
    measure: Measure, runner: str, faults: dict[str, Any], expected: tuple[str, str], says: str
) -> None:
    record = measure(runner, **faults)
    assert verdict(record) == expected
    assert says in record.detail


@pytest.mark.parametrize("runner", PROGRAMS)
def test_the_tools_themselves_agree_with_onnx_runtime(
    run_cell: Callable[..., CellRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    if not BUILD:
        pytest.skip("MNN_FARM_TOOLS names no build of MNN for this computer: its tools are not run")
    with monkeypatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
        bundle = import_bundle(Path(BUILD), "tools", replace=False, say=lambda _: None)
    record = run_cell(bundle.with_runner(runner))  # type: ignore[arg-type]
    assert verdict(record) == ("ok", None), record.detail
    assert record.metrics is not None
    assert record.metrics.latency_ms is not None
    assert record.metrics.latency_ms.n == 3
    assert kept(record).agreeing == 1.0
    assert (kept(record).max_error or 0.0) < 1e-5
