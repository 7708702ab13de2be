from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.support import ruled_out
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle, BundleManifest
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.plan.matrix import cells_of


def decide(make: ModuleType, backend: str = "cpu", weights: int = 10, manifest: Any = None, **facts: Any) -> Any:
    values = {
        "name": "toy",
        "runner": "farm_runner",
        "backends": ["cpu", "opencl", "vulkan"],
        "program": "x",
        "files": ["x"],
        **(manifest or {}),
    }
    bundle = Bundle(BundleManifest(**values), PayloadFolder(Path(), ()))
    model = ModelFolder("toy", PayloadFolder(Path(), ()), weights, 4)
    return ruled_out(cells_of(make.plan(backends=[backend]))[0], make.facts(**facts), bundle, model)


def test_nothing_speaks_against_an_ordinary_cell(make: ModuleType) -> None:
    assert decide(make) is None


@pytest.mark.parametrize(
    ("case", "reason", "says"),
    [
        (
            {"manifest": {"abis": ["armeabi-v7a"]}},
            Reason.ABI_MISMATCH,
            "bundle toy is for armeabi-v7a, the phone runs arm64-v8a",
        ),
        ({"manifest": {"needs_python_mnn": True}, "python_mnn": None}, Reason.ABI_MISMATCH, "needs a Python with MNN"),
        ({"backend": "vulkan", "manifest": {"backends": ["cpu"]}}, Reason.BACKEND_NOT_BUILT, "bundle toy has cpu"),
        ({"backend": "opencl"}, Reason.BACKEND_MISSING_ON_PHONE, "no OpenCL driver on this phone"),
        ({"backend": "vulkan"}, Reason.BACKEND_MISSING_ON_PHONE, "no Vulkan driver on this phone"),
        ({"weights": 9 << 30}, Reason.MODEL_TOO_BIG, "the phone has 8589934592 of memory"),
    ],
)
def test_what_cannot_run_is_ruled_out_and_says_why(make: ModuleType, case: Any, reason: Reason, says: str) -> None:
    refused = decide(make, **case)
    assert refused.reason is reason
    assert says in refused.detail


@pytest.mark.parametrize(
    "case",
    [
        {"backend": "opencl", "opencl": None},
        {"backend": "opencl", "opencl": "/vendor/lib64/libOpenCL.so"},
        {"backend": "vulkan", "vulkan": None},
        {"weights": 9 << 30, "ram_bytes": None},
        {"manifest": {"abis": ["arm64-v8a"]}, "abis": ()},
    ],
)
def test_what_is_unknown_is_tried(make: ModuleType, case: Any) -> None:
    assert decide(make, **case) is None
