"""Outputs that a tool wrote as text: brought, and held to the reference's count of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.bench.tensor_pull import pull_outputs
from harness.core.deadline import Deadline
from harness.core.transport import ShellResult
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_case import TensorCase
from harness.runners.events import TensorFile

WANTED = np.array([[1.0, 2.5]], np.float32)
CASE = TensorCase(("0.npz",), ({"x": WANTED},), ({"y": WANTED},), "onnxruntime", True, Weights.FULL)
TOLD = TensorFile(sample="000000", name="y", dtype="text", shape=(), file="000000.0.txt")


class Phone:
    """A phone with these files."""

    name = "toy"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def shell(self, argv: Sequence[str], *, deadline: Deadline) -> ShellResult:
        sizes = [str(len(self.files[path])) if path in self.files else "none" for path in argv[4:]]
        return ShellResult(0, "\n".join(sizes).encode(), b"")

    def pull(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        local.write_bytes(self.files[remote])


def pulled(text: bytes | None, told: TensorFile = TOLD) -> tuple[list[float] | None, tuple[str, ...]]:
    """Return the numbers that came, and what is said of what did not."""
    files = {} if text is None else {f"/w/outputs/{told.file}": text}
    result = pull_outputs(Phone(files), "/w/outputs", [told], CASE)  # type: ignore[arg-type]
    made = result.made[0].get("y")
    assert made is None or made.shape == WANTED.shape
    return (None if made is None else made.ravel().tolist()), result.problems


def test_numbers_of_the_references_count_are_its_output() -> None:
    assert pulled(b"1\t2.5\t\n") == ([1.0, 2.5], ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"1\n", "output y of sample 0.npz has 1 numbers, the reference has 2"),
        (b"", "output y of sample 0.npz has 0 numbers, the reference has 2"),
        (b"1 two", "output y of sample 0.npz is no text of numbers"),
        (None, "output y of sample 0.npz is not there: the phone has no file 000000.0.txt"),
    ],
)
def test_anything_else_is_none(text: bytes | None, says: str) -> None:
    assert pulled(text) == (None, (says,))


def test_a_text_too_large_is_left_on_the_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.bench.tensor_pull.MOST_BYTES", 3)
    assert pulled(b"1 2.5") == (None, ("output y of sample 0.npz has 5 bytes, more than is brought (3)",))


def test_a_file_elsewhere_is_not_brought() -> None:
    _, [says] = pulled(b"1 2.5", TOLD.model_copy(update={"file": "../secret"}))
    assert "is no name of a file" in says
