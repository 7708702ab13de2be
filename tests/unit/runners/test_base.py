"""What every runner finds beside it on the phone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from harness.payload.bundle import default_bundle
from harness.runners.base import library_env


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("tool_runs.py"))


@pytest.mark.parametrize(
    ("backend", "files", "loaded"),
    [
        ("opencl", {"llm_demo", "libMNN_CL.so"}, "/b/libMNN_CL.so"),
        ("opencl", {"llm_demo"}, None),
        ("cpu", {"llm_demo", "libMNN_CL.so"}, None),
        ("vulkan", {"llm_demo", "libMNN_Vulkan.so", "libMNN_CL.so"}, "/b/libMNN_Vulkan.so"),
    ],
)
def test_a_backend_in_a_library_of_its_own_is_loaded_where_it_is_wanted(
    tools: ModuleType, tmp_path: Path, backend: str, files: set[str], loaded: str | None
) -> None:
    order = replace(tools.order("llm_demo", tmp_path / "toy", backends=[backend]), files=frozenset(files))
    env = library_env(order)
    assert env.pop("LD_LIBRARY_PATH") == "/b"
    assert env == ({} if loaded is None else {"LD_PRELOAD": loaded})


def test_our_own_runners_bring_no_libraries(tools: ModuleType, tmp_path: Path) -> None:
    order = replace(tools.order("llm_demo", tmp_path / "toy"), bundle=default_bundle())
    assert library_env(order) == {}
