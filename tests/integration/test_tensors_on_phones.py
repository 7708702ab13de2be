"""Ordinary models through the whole chain: converted, pushed to virtual phones, run, brought back, judged, reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tomli
from PIL import Image, ImageDraw, ImageFont

from harness.bench.context import RunContext, cell_config
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.commands.compare_verify import one_cell_plan
from harness.core.errors import HostError
from harness.core.provider import Endpoint
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.convert import ConvertOptions, convert_model
from harness.payload.mnn_weights import Weights
from harness.payload.models import find_model, read_tensor_model
from harness.payload.models_onnx import fetch_onnx
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.plan.load import make_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, TensorOutput

LINES = ("HELLO WORLD", "Invoice 2031")
VARIANTS = {"fp32": Weights.FULL, "fp16": Weights.HALF, "int8": Weights.INT8}
NAMES = ("cls", "det", "rec")
PLAN = """
schema = 1
kind = "tensor"
models = MODELS
backends = ["cpu"]
threads = [2]
precision = ["high"]
cold_start = false
warmups = 1
repeats = 2
cell_timeout_s = 60
[slo]
judge = false
[roofline]
measure = false
[prepare]
screen = "keep"
stay_awake = false
doze_off = false
"""
RUN_TIMEOUT_S = 240


def picture(text: str) -> Any:
    """A line of text, as the recogniser and the classifier are fed."""
    image = Image.new("RGB", (192, 48), (250, 248, 240))
    ImageDraw.Draw(image).text((8, 8), text, fill=(20, 20, 60), font=ImageFont.load_default(size=26))
    return (np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 255 - 0.5) / 0.5


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The three OCR models in three kinds of weights, with ONNX Runtime's outputs on rendered lines beside."""
    pytest.importorskip("onnxruntime")
    root = tmp_path_factory.mktemp("converted")
    made = []
    for name in NAMES:
        samples = root / f"samples-{name}"
        samples.mkdir()
        for text in LINES:
            x = picture(text)
            if name == "det":
                x = np.pad(x, ((0, 0), (0, 0), (24, 24), (0, 0)), mode="edge")
            write_tensors(samples / f"{text.split()[0]}.npz", {"x": x})
        try:
            source = fetch_onnx(f"rapidocr-{name}", say=print)
        except HostError as error:
            pytest.skip(f"the OCR models are not on this computer and cannot be fetched: {error}")
        for variant, weights in VARIANTS.items():
            made.append(root / f"{name}-{variant}")
            assert convert_model(source, made[-1], ConvertOptions(weights, samples=samples)).ok
    return made


@pytest.fixture(scope="module")
def two_phones(converted: list[Path], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of all of them on two virtual phones, as a person runs it."""
    folder = tmp_path_factory.mktemp("run")
    plan = folder / "plan.toml"
    plan.write_text(PLAN.replace("MODELS", json.dumps([str(model) for model in converted])))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "virtual:2"]
    done = subprocess.run(
        [*argv, "--plan", str(plan), "--run-dir", str(folder / "out")],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        env={**env, "MNN_FARM_CACHE": str(farm_cache), "CI": "true"},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


def records_of(folder: Path) -> dict[tuple[str, str, str], CellRecord]:
    """Return the records of a run by phone, model and variant."""
    records = list(RunFolder(folder).records())
    found = {(record.phone.name, *record.model.name.split("-")): record for record in records}
    assert len(found) == len(records)
    return found  # type: ignore[return-value]


def shown(record: CellRecord) -> TensorOutput:
    """Return what a record shows of the outputs."""
    assert record.output is not None
    assert record.output.tensors is not None
    return record.output.tensors


def test_three_real_models_in_three_kinds_of_weights_are_ok_on_two_phones(two_phones: Path) -> None:
    records = records_of(two_phones)
    assert len({phone for phone, _, _ in records}) == 2
    assert {(name, variant) for _, name, variant in records} == {(name, each) for name in NAMES for each in VARIANTS}
    for key, record in records.items():
        assert (record.verdict.value, record.config.kind) == ("ok", "tensor"), f"{key}: {record.detail}"
        assert record.model.stored == key[2]
        assert record.metrics is not None
        assert record.metrics.latency_ms is not None
        assert record.metrics.latency_ms.n == 2
        assert record.metrics.load_ms is not None
        assert record.metrics.peak_rss_bytes is not None
        assert (record.metrics.decode_tps, record.nulls["decode_tps"]) == (None, "a tensor cell has no tokens")
        assert record.nulls["latency_ms.p99"] == "200 samples are needed"
        assert record.backend is not None
        assert (record.backend.actual, record.backend.strength) == ("cpu", "engine")
        assert record.thermal is not None
        assert record.thermal.start_c is not None
        out = shown(record)
        assert (out.reference, out.samples, out.failed, out.real_inputs) == ("onnxruntime", 2, 0, True)
    assert len({record.model.source for record in records.values()}) == len(NAMES)


def test_full_weights_agree_with_onnx_runtime_and_rounding_at_a_steep_layer_is_told(two_phones: Path) -> None:
    for (_, name, variant), record in records_of(two_phones).items():
        if variant == "fp32":
            [kept] = shown(record).outputs
            assert kept.max_error is not None
            assert kept.agreeing is not None
            if name != "det":
                assert (kept.agreeing, kept.max_error < 1e-4) == (1.0, True)
            assert kept.agreeing > 0.999
            # The detector ends in a sigmoid: whether it is beyond the tolerance depends on the processor.
            told = [finding.code for finding in record.findings if finding.code == "rounding"]
            assert told == (["rounding"] if kept.agreeing < 1 else [])


def test_what_fewer_bits_cost_is_shown_as_accuracy_kept(two_phones: Path) -> None:
    for (_, name, variant), record in records_of(two_phones).items():
        [kept] = shown(record).outputs
        if name == "rec" and variant != "fp32":
            assert kept.max_error is not None
            assert kept.max_error > 1e-3
            assert kept.same_positions is not None
            assert 0.9 < kept.same_positions <= 1.0
            assert kept.cosine_mean is not None
            assert "cosine" in shown(record).held_to


def test_the_report_and_the_other_files_are_written(two_phones: Path) -> None:
    assert "rec-int8" in (two_phones / "report.html").read_text()
    assert (two_phones / "junit.xml").read_text().count("<testcase") == 18
    rows = (two_phones / "results.csv").read_text().splitlines()
    assert len(rows) == 19


def test_a_cell_of_the_run_can_be_measured_again(two_phones: Path) -> None:
    folder = RunFolder(two_phones)
    record = next(folder.records())
    cell = SimpleNamespace(new=record, worse=[])
    plan = make_plan(one_cell_plan(cell, folder.read_info()), "again")  # type: ignore[arg-type]
    [planned] = cells_of(plan)
    assert (planned.tensor, planned.backend, planned.threads) == (True, "cpu", 2)
    config = cell_config(planned, plan, model=read_tensor_model(Path(planned.model)))
    assert config.prompt_hash == record.config.prompt_hash


@dataclass
class Bench:
    """One phone, and where records go."""

    phone: ConnectedPhone
    folder: Path
    last: Path = Path()

    def run(self, model: Path, bundle: Bundle | None = None, **changed: Any) -> list[CellRecord]:
        """Run a model's cells, and return their records as they were written."""
        values = {**tomli.loads(PLAN.replace("MODELS", "[]")), "models": [str(model)], **changed}
        plan = make_plan(values, "the test's plan")
        kept = RunFolder.create(self.folder / f"run{len(list(self.folder.iterdir()))}")
        self.last = kept.path
        models = {str(model): read_tensor_model(model)}
        context = RunContext("tensors", kept.path, plan, bundle or default_bundle(), models)
        session = PhoneSession(self.phone, context, lambda _: None)
        for cell in cells_of(plan):
            session.run_cell(cell)
        return list(kept.records())


@pytest.fixture(scope="module")
def bench(virtual_phone: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    phone = connect(virtual_phone, load_tier_rules())
    yield Bench(phone, tmp_path_factory.mktemp("runs"))
    leave_as_found(phone, lambda _: None)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return Path(shutil.copytree(find_model("tiny-cnn"), tmp_path / "tiny"))


@pytest.fixture
def bent(tmp_path: Path) -> Callable[[str, str], Bundle]:
    """Make our own binaries with one piece of the runner's text replaced."""

    def make(text: str, by: str) -> Bundle:
        folder = Path(shutil.copytree(default_bundle().folder.root, tmp_path / "bent"))
        program = folder / "farm" / "tensor_run.py"
        whole = program.read_text()
        assert whole.count(text) == 1
        program.write_text(whole.replace(text, by))
        return read_bundle(folder)

    return make


def test_a_precision_that_is_fast_and_wrong_is_rejected_and_the_other_is_not(
    bench: Bench, tiny: Path, bent: Callable[[str, str], Bundle]
) -> None:
    bundle = bent(
        "arrays = {name: model.array(one) for",
        'arrays = {name: model.array(one)[..., :: -1 if options.precision == "low" else 1] for',
    )
    good, wrong = bench.run(tiny, bundle, precision=["high", "low"])
    assert (good.verdict.value, good.reason) == ("ok", None), good.detail
    assert (wrong.verdict.value, wrong.reason) == ("rejected", "output_wrong")
    assert "output y keeps a cosine similarity of" in wrong.detail
    assert " instead of " in wrong.detail
    assert wrong.metrics is not None
    assert wrong.metrics.latency_ms is not None
    assert shown(wrong).outputs[0].same_top1 == 0.0


def test_a_phone_is_not_held_to_outputs_of_other_weights(bench: Bench, tiny: Path) -> None:
    for file in (tiny / "expected").iterdir():
        write_tensors(file, {"y": np.roll(read_tensors(file)["y"], 1)})
    [record] = bench.run(tiny)
    assert (record.verdict.value, record.reason) == ("rejected", "output_wrong")
    assert record.detail.startswith("output y differs from the reference: ")
    assert record.raw is not None
    kept = [read_tensors(file)["y"] for file in sorted(bench.last.joinpath(record.raw, "outputs").iterdir())]
    right = find_model("tiny-cnn") / "expected"
    assert [np.abs(y - read_tensors(right / f"{n}.npz")["y"]).max() < 1e-5 for n, y in enumerate(kept)] == [True] * 4


def test_outputs_that_are_told_and_not_there_are_wrong(
    bench: Bench, tiny: Path, bent: Callable[[str, str], Bundle]
) -> None:
    bundle = bent("(folder / file).write_bytes(little.tobytes())", "(folder / file).write_bytes(little.tobytes()[4:])")
    [record] = bench.run(tiny, bundle)
    assert (record.verdict.value, record.reason) == ("rejected", "output_wrong")
    assert "has 36 bytes on the phone" in record.detail


def test_a_folder_without_samples_is_held_to_this_computer_on_random_input(bench: Bench, tiny: Path) -> None:
    shutil.rmtree(tiny / "samples")
    shutil.rmtree(tiny / "expected")
    [record] = bench.run(tiny, cold_start=True)
    assert (record.verdict.value, record.reason) == ("ok", None), record.detail
    assert shown(record).reference.startswith("mnn ")
    assert (shown(record).samples, shown(record).real_inputs) == (1, False)
    assert {"inputs_random", "reference_same_model"} <= {finding.code for finding in record.findings}
    assert record.metrics is not None
    assert record.metrics.load_cold_ms is not None
    assert record.metrics.first_use_ms is not None
    assert record.metrics.first_use_ms > record.metrics.load_cold_ms
