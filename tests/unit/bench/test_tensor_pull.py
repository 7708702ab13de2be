"""Outputs brought from a phone that may tell anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.bench.tensor_pull import pull_outputs
from harness.core.transport import ShellResult
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_case import TensorCase
from harness.runners.events import TensorFile

Y = np.arange(6, dtype=np.float32).reshape(1, 6)
FOLDER = "/data/local/tmp/mnn-farm/work/w/outputs"


class Phone:
    """Has the given files below the folder; ``lies`` are sizes that it tells of some."""

    name = "toy-1"

    def __init__(self, files: dict[str, bytes], lies: dict[str, int] | None = None) -> None:
        self.files = files
        self.lies = lies or {}
        self.asked: list[str] = []

    def shell(self, argv: Any, **_: object) -> ShellResult:
        names = [path.removeprefix(f"{FOLDER}/") for path in argv[4:]]
        self.asked += names
        sizes = [self.lies.get(name, len(self.files[name])) if name in self.files else "none" for name in names]
        return ShellResult(0, "".join(f"{size}\n" for size in sizes).encode(), b"")

    def pull(self, remote: str, local: Path, **_: object) -> None:
        local.write_bytes(self.files[remote.removeprefix(f"{FOLDER}/")])


def told(**over: Any) -> TensorFile:
    values = {"sample": "000000", "name": "y", "dtype": "float32", "shape": (1, 6), "file": "000000.0.bin", **over}
    return TensorFile(**values)


def case(*names: str) -> TensorCase:
    expected = dict.fromkeys(names or ("y",), Y)
    return TensorCase(("cat.npz",), ({},), (expected,), "onnxruntime", True, Weights.FULL)


def pull(phone: Phone, *files: TensorFile, of: TensorCase | None = None) -> Any:
    return pull_outputs(phone, FOLDER, files, of or case())  # type: ignore[arg-type]


def test_an_output_is_brought_as_it_was_written() -> None:
    found = pull(Phone({"000000.0.bin": Y.astype("<f4").tobytes()}), told())
    assert found.problems == ()
    assert np.array_equal(found.made[0]["y"], Y)
    assert found.made[0]["y"].dtype == np.float32


def test_a_single_output_may_have_any_name() -> None:
    found = pull(Phone({"000000.0.bin": Y.tobytes()}), told(name="Identity:0"))
    assert (list(found.made[0]), found.problems) == (["y"], ())


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"shape": (6, 1)}, "output y of sample cat.npz is 6×1, the reference's is 1×6"),
        ({"dtype": "float64"}, "output y of sample cat.npz has the type 'float64', which the engine has not"),
        ({"file": "../../secret"}, "is said to lie in '../../secret', which is no name of a file"),
        ({"file": "/etc/passwd"}, "which is no name of a file"),
        ({"file": ".hidden"}, "which is no name of a file"),
        ({"file": "gone.bin"}, "output y of sample cat.npz is not there: the phone has no file gone.bin"),
        ({"sample": "000009"}, "outputs were told of a sample '000009', which nobody asked for"),
    ],
)
def test_what_does_not_fit_is_said_and_not_brought(over: dict[str, Any], says: str) -> None:
    phone = Phone({"000000.0.bin": Y.tobytes()})
    found = pull(phone, told(**over))
    assert says in found.problems[0]
    assert found.made == ({},)
    assert set(phone.asked) <= {"gone.bin"}


def test_a_file_of_another_size_is_not_brought() -> None:
    phone = Phone({"000000.0.bin": Y.tobytes()[4:]})
    [says] = pull(phone, told()).problems
    assert says == "output y of sample cat.npz has 20 bytes on the phone, 1×6 of float32 are others"


def test_a_file_that_grows_after_it_was_looked_at_is_not_believed() -> None:
    phone = Phone({"000000.0.bin": Y.tobytes() + b"more"}, {"000000.0.bin": 24})
    assert pull(phone, told()).problems == ("output y of sample cat.npz did not arrive whole",)


def test_missing_double_and_unknown_outputs_are_named() -> None:
    phone = Phone({"000000.0.bin": Y.tobytes()})
    found = pull(phone, told(), told(), told(name="w"), of=case("y", "z"))
    assert found.problems == (
        "output y of sample cat.npz was told twice",
        "output w of sample cat.npz is none of the reference's (y, z)",
        "output z of sample cat.npz is missing",
    )


def test_nothing_told_is_an_output_missing() -> None:
    assert pull(Phone({})).problems == ("output y of sample cat.npz is missing",)
