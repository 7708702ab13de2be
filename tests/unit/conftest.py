"""What tests of several folders share."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.resources import data_root


@pytest.fixture(scope="session")
def mnn_graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small ``.mnn`` graphs, made by the engine; ``weights.npz`` holds what is in them."""
    folder = tmp_path_factory.mktemp("graphs")
    maker = Path(__file__).with_name("make_mnn_graphs.py")
    subprocess.run([sys.executable, str(maker), str(folder)], check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="session")
def onnx_kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The maker of ONNX models."""
    pytest.importorskip("onnx")
    return load_module(Path(__file__).with_name("onnx_kit.py"))


@pytest.fixture(scope="session")
def farm_part() -> Iterator[Callable[[str], ModuleType]]:
    """Import a part of the runner that goes to phones, by its name in ``device_bins/runner/farm``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(data_root() / "device_bins" / "runner"))
        yield lambda name: importlib.import_module(f"farm.{name}")
