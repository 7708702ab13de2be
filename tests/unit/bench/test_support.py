from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.support import ruled_out
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle, BundleManifest
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.phone.cpu import Cluster
from harness.plan.matrix import cells_of


def decide(
    make: ModuleType,
    backend: str = "cpu",
    weights: int = 10,
    manifest: Any = None,
    plan: Any = None,
    folder: Path = Path(),
    **facts: Any,
) -> Any:
    values = {
        "name": "toy",
        "runner": "farm_runner",
        "backends": ["cpu", "opencl", "vulkan"],
        "program": "x",
        "files": ["x"],
        **(manifest or {}),
    }
    bundle = Bundle(BundleManifest(**values), PayloadFolder(Path(), ()))
    model = ModelFolder("toy", PayloadFolder(folder, ()), weights, 4)
    chosen = make.plan(backends=[backend], **(plan or {}))
    return ruled_out(cells_of(chosen)[0], chosen, make.facts(**facts), bundle, model)


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
        ({"weights": 9 << 30}, Reason.MODEL_TOO_BIG, "9.66 GB of weights, the phone has 8.59 GB of memory"),
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


# --- cores and contexts that a plan asks for ---

CLUSTERS = (
    Cluster((0,), "Cortex-A55", "0x41", "0xd05", 1_800_000),
    Cluster((1,), "Cortex-A78", "0x41", "0xd41", 2_400_000),
)


@pytest.mark.parametrize("word", ["any", "big", "0", "0-1"])
def test_cores_that_the_phone_has_are_no_reason_to_refuse(make: ModuleType, word: str) -> None:
    assert decide(make, plan={"affinity": [word]}, cpu_clusters=CLUSTERS) is None


def test_cores_that_the_phone_lacks_are_the_plans_fault(make: ModuleType) -> None:
    refused = decide(make, plan={"affinity": ["1-3"]}, cpu_clusters=CLUSTERS)
    assert (refused.reason, refused.detail) == (
        Reason.BAD_PLAN,
        "affinity 1-3 asks for core 2-3; the phone has cores 0-1",
    )
    assert decide(make, plan={"affinity": ["big"]}).reason is Reason.BAD_PLAN


def write_config(folder: Path, **config: Any) -> Path:
    (folder / "config.json").write_text('{"llm_model": "llm.mnn"}')
    (folder / "llm_config.json").write_text(json.dumps(config))
    return folder


def test_a_history_longer_than_the_models_context_is_refused_before_the_run(make: ModuleType, tmp_path: Path) -> None:
    folder = write_config(tmp_path, max_position_embeddings=4096)
    assert decide(make, plan={"context_tokens": [4056]}, folder=folder) is None
    refused = decide(make, plan={"context_tokens": [4057]}, folder=folder)
    assert refused.reason is Reason.BAD_PLAN
    assert refused.detail == (
        "the model's context is 4096 tokens (max_position_embeddings); 4057 of history, 8 of prompt and 32 to generate "
        "are 4097"
    )


@pytest.mark.parametrize("config", [{}, {"max_position_embeddings": 0}, {"max_position_embeddings": "many"}])
def test_a_model_that_does_not_tell_its_context_is_tried(make: ModuleType, tmp_path: Path, config: Any) -> None:
    folder = write_config(tmp_path, **config)
    assert decide(make, plan={"context_tokens": [100_000]}, folder=folder) is None
