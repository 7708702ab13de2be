"""Three real models of an OCR package, from ONNX to MNN in three kinds of weights, on lines of text that they read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from harness.commands.models import app
from harness.core.errors import HostError
from harness.payload.models_onnx import fetch_onnx
from harness.payload.tensor_files import write_tensors

pytest.importorskip("onnxruntime")

LINES = ("HELLO WORLD", "Invoice 2031", "Total 48.50", "Gate B12")
OPTIONS: dict[str, tuple[str, ...]] = {"fp32": (), "fp16": ("--fp16",), "int8": ("--weight-bits", "8")}


def line(text: str) -> Any:
    """A picture of a line of text, as the recogniser and the classifier are fed."""
    picture = Image.new("RGB", (192, 48), (250, 248, 240))
    ImageDraw.Draw(picture).text((8, 8), text, fill=(20, 20, 60), font=ImageFont.load_default(size=26))
    return (np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 255 - 0.5) / 0.5


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    for index, text in enumerate(LINES):
        write_tensors(folder / f"{index}.npz", {"x": line(text)})
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(tmp_path_factory.mktemp("cache")))
        try:
            yield {name: fetch_onnx(f"rapidocr-{name}", say=print) for name in ("cls", "det", "rec")}
        except HostError as error:
            pytest.skip(f"the OCR models are not on this computer and cannot be fetched: {error}")


def run(*args: object) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, [*map(str, args), "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("name", ["cls", "rec"])
def test_a_real_model_is_converted_and_keeps_what_it_decides(
    sources: dict[str, Path], samples: Path, tmp_path: Path, name: str, weights: str
) -> None:
    status, told = run("convert", sources[name], "-o", tmp_path, *OPTIONS[weights])
    assert (status, told["facts"]["weights"]) == (0, weights)
    assert "shape_open" in [problem["code"] for problem in told["problems"]]
    status, told = run("check", sources[name], told["facts"]["path"], "--samples", samples)
    [kept] = told["accuracy"]
    assert (status, told["weights"], kept["samples"], kept["failed"]) == (0, weights, 4, 0)
    assert kept["same_positions"] > (0.999 if weights == "fp32" else 0.95)
    if weights == "fp32":
        assert kept["max_error"] < 1e-4
    if name == "rec" and weights != "fp32":
        assert kept["max_error"] > 1e-3  # shown, not hidden


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
def test_the_detector_is_converted_and_agrees(sources: dict[str, Path], tmp_path: Path, weights: str) -> None:
    page = np.pad(line(LINES[0]), ((0, 0), (0, 0), (24, 24), (0, 0)), mode="edge")
    write_tensors(tmp_path / "x.npz", {"x": page})
    status, told = run("convert", sources["det"], "-o", tmp_path / "out", *OPTIONS[weights])
    assert (status, told["facts"]["weights"]) == (0, weights)
    tolerance = "1e-3"  # it ends in a step so steep that rounding becomes 6e-4 at the edge of a letter
    status, told = run(
        "check", sources["det"], told["facts"]["path"], "--input", tmp_path / "x.npz", "--tolerance", tolerance
    )
    [kept] = told["accuracy"]
    assert (status, kept["same_top1"]) == (0, None)
    assert kept["cosine_mean"] > 0.98
