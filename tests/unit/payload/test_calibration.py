"""Samples that calibrate nothing are told from real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import ConfigError
from harness.payload.calibration import MIN_SAMPLES, judge_samples
from harness.payload.samples import Sample, read_samples
from harness.payload.tensor_files import write_tensors

RANDOM = np.random.default_rng(2)
SHAPE = (1, 3, 24, 32)


def picture(index: int) -> Any:
    """A slope with a bar somewhere: what is beside each other is alike."""
    made = np.tile(np.linspace(-1, 0.4, SHAPE[3]), (*SHAPE[:3], 1))
    made[..., 4 : 9 + index % 5, index % 20 : index % 20 + 8] = 0.7 - index / 40
    return (made + RANDOM.normal(0, 0.03, SHAPE)).astype(np.float32)


def codes(make: Callable[[int], Any], count: int = MIN_SAMPLES) -> list[str]:
    samples = [Sample(f"{index}.npz", {"x": np.asarray(make(index))}) for index in range(count)]
    return [finding.code for finding in judge_samples(samples)]


def test_pictures_are_fit() -> None:
    assert codes(picture) == []


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda _: RANDOM.standard_normal(SHAPE), "calibration_random"),
        (lambda _: RANDOM.random(SHAPE), "calibration_random"),
        (lambda _: RANDOM.integers(0, 256, SHAPE).astype(np.float32), "calibration_random"),
        (lambda _: RANDOM.laplace(3, 2, SHAPE).astype(np.float32), "calibration_random"),
        (lambda _: RANDOM.standard_normal((1, 128)), "calibration_random"),
        (lambda _: picture(0) * 0 + 1, "calibration_constant"),
        (lambda index: np.full(SHAPE, index, np.float32), "calibration_constant"),
        (lambda index: picture(index) * np.nan, "calibration_constant"),
    ],
)
def test_what_no_camera_made_is_refused(make: Callable[[int], Any], code: str) -> None:
    assert code in codes(make)


def test_few_samples_are_refused_and_copies_do_not_count() -> None:
    assert codes(picture, MIN_SAMPLES - 1) == ["calibration_small"]
    pictures = [picture(index) for index in range(4)]
    assert codes(lambda index: pictures[index % 4], 40) == ["calibration_small"]


def test_features_and_ids_need_not_resemble_their_neighbours() -> None:
    widths = np.linspace(0.1, 5, 128)
    assert codes(lambda _: RANDOM.standard_normal((1, 128)) * widths + 3) == []
    assert codes(lambda _: RANDOM.integers(0, 30000, (1, 64))) == []


def test_samples_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write_tensors(tmp_path / "b.npz", {"x": np.array([2.0])})
    np.save(tmp_path / "a.npy", np.array([1.0]))
    (tmp_path / ".hidden.npz").touch()
    assert [(sample.name, float(sample.inputs["x"][0])) for sample in read_samples(tmp_path, ("x",))] == [
        ("a.npy", 1.0),
        ("b.npz", 2.0),
    ]
    (tmp_path / "a.npy").unlink()
    with pytest.raises(ConfigError, match="gives x, and the model takes y"):
        read_samples(tmp_path, ("y",))


@pytest.mark.parametrize(("name", "says"), [("photo.png", "1 images and no arrays"), ("notes.txt", "holds no sample")])
def test_a_folder_without_samples_says_what_it_holds(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=says):
        read_samples(tmp_path, ("x",))
