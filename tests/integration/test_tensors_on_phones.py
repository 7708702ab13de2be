"""Ordinary models through the whole chain: converted, pushed to two virtual phones, run, brought back and judged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
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
from harness.store.schema import CellRecord

pytest.importorskip("onnxruntime")

PHONES = ("high", "mid")
LINES = ("HELLO WORLD", "Invoice 2031")
VARIANTS = {"fp32": Weights.FULL, "fp16": Weights.HALF, "int8": Weights.INT8}
PLAN: dict[str, Any] = {
    "schema": 1,
    "kind": "tensor",
    "models": [],
    "backends": ["cpu"],
    "threads": [2],
    "precision": ["high"],
    "cold_start": False,
    "warmups": 1,
    "repeats": 2,
    "cell_timeout_s": 60.0,
    "roofline": {"measure": False},
    "prepare": {"screen": "keep", "stay_awake": False, "doze_off": False},
}


@dataclass
class Bench:
    """Two phones, and where records go."""

    phones: list[ConnectedPhone]
    folder: Path

    def run(self, folders: list[Path], phone: int = 0, bundle: Bundle | None = None, **plan: Any) -> list[CellRecord]:
        """Run the cells of models on a phone, and return their records as they were written."""
        chosen = make_plan({**PLAN, "models": [str(folder) for folder in folders], **plan}, "test")
        models = {str(folder): read_tensor_model(folder) for folder in folders}
        kept = RunFolder.create(self.folder / f"run{len(list(self.folder.iterdir()))}")
        context = RunContext("tensors", kept.path, chosen, bundle or default_bundle(), models)
        session = PhoneSession(self.phones[phone], context, lambda _: None)
        for cell in cells_of(chosen):
            session.run_cell(cell)
        return list(kept.records())


@pytest.fixture(scope="module")
def bench(virtual_phones: list[Endpoint], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    rules = load_tier_rules()
    phones = [connect(endpoint, rules) for endpoint in virtual_phones]
    yield Bench(phones, tmp_path_factory.mktemp("runs"))
    for phone in phones:
        leave_as_found(phone, lambda _: None)


def picture(text: str) -> Any:
    """A line of text, as the recogniser and the classifier are fed."""
    image = Image.new("RGB", (192, 48), (250, 248, 240))
    ImageDraw.Draw(image).text((8, 8), text, fill=(20, 20, 60), font=ImageFont.load_default(size=26))
    return (np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 255 - 0.5) / 0.5


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """The three OCR models in three kinds of weights, with ONNX Runtime's outputs on rendered lines beside."""
    root = tmp_path_factory.mktemp("converted")
    made = {}
    for name in ("cls", "rec", "det"):
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
            folder = root / f"{name}-{variant}"
            assert convert_model(source, folder, ConvertOptions(weights, samples=samples)).ok
            made[name, variant] = folder
    return made


def test_real_models_run_on_two_phones_and_what_they_keep_is_shown(
    bench: Bench, converted: dict[tuple[str, str], Path]
) -> None:
    for phone in (0, 1):
        records = bench.run(list(converted.values()), phone)
        for (name, variant), record in zip(converted, records, strict=True):
            what = f"{name} {variant} on {record.phone.name}"
            assert (record.verdict.value, record.reason) == ("ok", None), f"{what}: {record.detail}"
            print(what, record.output.tensors, record.metrics.latency_ms)
            assert record.metrics is not None
            assert record.metrics.latency_ms is not None
