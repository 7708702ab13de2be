from __future__ import annotations

from typing import Any

import pytest

from harness.payload.model_settings import check_settings


def found(**config: Any) -> list[tuple[str, str]]:
    return [(problem.detail, problem.fix) for problem in check_settings(config, "config.json")]


@pytest.mark.parametrize("backend", ["cpu", "opencl", "vulkan", "metal", "cuda", "opengl", "hexagon", "npu", "auto"])
@pytest.mark.parametrize("level", ["low", "normal", "high"])
def test_what_mnn_knows_is_fine(backend: str, level: str) -> None:
    config = {"backend_type": backend, "precision": level, "memory": level, "power": level, "thread_num": 68}
    assert found(**config, mllm=config) == []


@pytest.mark.parametrize(
    ("word", "right"),
    [("opencll", "opencl"), ("OpenCL", "opencl"), ("vulcan", "vulkan"), ("cup", "cpu"), ("CPU ", "cpu")],
)
def test_a_backend_that_is_misspelt_is_told_with_the_right_word(word: str, right: str) -> None:
    says = f'config.json: backend_type is "{word}", which MNN does not know; it would choose a backend by itself'
    assert found(backend_type=word) == [(f"{says} and not say so", f'write "{right}"')]


@pytest.mark.parametrize("value", ["gpu", "", None, 3, ["cpu"], True])
def test_a_backend_that_resembles_none_is_told_with_all(value: Any) -> None:
    [(_, fix)] = found(backend_type=value)
    assert fix == "write one of: cpu, opencl, vulkan, metal, cuda, opengl, hexagon, npu, auto"


@pytest.mark.parametrize("key", ["precision", "memory", "power"])
def test_a_level_that_mnn_does_not_know_would_be_normal(key: str) -> None:
    says = f'config.json: {key} is "hihg", which MNN does not know; it would take normal and not say so'
    assert found(**{key: "hihg"}) == [(says, 'write "high"')]


@pytest.mark.parametrize("threads", [0, -4, "4", 2.5, True, None])
def test_threads_are_a_whole_number(threads: Any) -> None:
    [(says, fix)] = found(thread_num=threads)
    assert says.startswith("config.json: thread_num is ")
    assert fix == "write a whole number of at least 1"


def test_the_settings_of_the_encoders_are_looked_at_too() -> None:
    [(says, _)] = found(mllm={"backend_type": "opncl"})
    assert says.startswith('config.json: mllm.backend_type is "opncl"')


def test_all_are_told_at_once() -> None:
    assert len(found(backend_type="x", precision="x", memory="x", power="x", thread_num="x")) == 5
