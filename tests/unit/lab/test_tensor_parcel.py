"""A converted model on its way to a host: its samples and what is expected of them go along, and are found there."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np

from harness.lab.parcel import model_at, pack_model
from harness.payload.models import find_model, read_tensor_model
from harness.payload.tensor_case import case_of


def test_samples_and_expectations_go_along_and_only_the_model_to_phones(tmp_path: Path) -> None:
    model = read_tensor_model(find_model("tiny-cnn"))
    packed = pack_model(model)
    assert {file.path for file in packed.parcel.files} >= {
        "files/tiny-cnn.mnn", "files/samples/0.npz", "files/expected/0.npz", "files/convert.json",
    }  # fmt: skip
    for file in packed.parcel.files:
        target = tmp_path / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(packed.roots["files"] / file.path.removeprefix("files/"), target)
    there = model_at(pickle.loads(pickle.dumps(model)), tmp_path)  # noqa: S301  our own
    assert there.folder.hash == model.folder.hash
    assert [file.path for file in there.folder.files] == ["tiny-cnn.mnn"]
    assert there.tensor is not None
    assert there.tensor.path == tmp_path / "files" / "tiny-cnn.mnn"
    case = case_of(there.tensor, there.folder.hash, 2, 0, print)
    assert case.reference == "onnxruntime"
    assert np.isfinite(case.expected[1]["y"]).all()
