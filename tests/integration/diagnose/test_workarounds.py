"""Where the engine breaks on a phone: the rung, and the nearest settings that work, found on the phone itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.provider import Endpoint
from harness.diagnose.ladder import Diagnosis
from harness.diagnose.told import result_lines
from harness.plan.load import load_plan
from harness.store.runfolder import RunFolder

PHONES = ("high-opencl", "low-hot")
Climb = Callable[..., Diagnosis]


def text(found: Diagnosis) -> str:
    return "\n".join(result_lines(found))


def test_a_gpu_that_falls_back_to_the_cpu_is_named_and_the_cpu_is_the_way_out(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    """The phone has a driver by its description, and the engine no such backend: it says nothing and uses the CPU."""
    found = arena.climb(virtual_phones[0], tmp_path, quick=True)
    assert arena.layer(found) == ("opencl", "backend_fallback")
    assert found.workarounds[0].changed == {"backend": "cpu"}
    assert load_plan(tmp_path / "run" / "fails.toml").backends == ["opencl"]
    assert load_plan(tmp_path / "run" / "works-1.toml").backends == ["cpu"]
    assert "Can't Find type=3 backend" in text(found)


def test_a_gpu_without_a_driver_is_named_when_it_was_asked_for(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    bundle = arena.synthetic(tmp_path / "gpu", backends=("cpu", "opencl"))
    found = arena.climb(virtual_phones[1], tmp_path, bundle=bundle, backends=("opencl",), quick=True)
    assert arena.layer(found) == ("opencl", "backend_missing_on_phone")
    assert found.workarounds[0].changed == {"backend": "cpu"}


def test_wrong_text_with_more_than_two_threads_is_bisected_to_two(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    bundle = arena.bent(tmp_path / "bent", "threads > 2", arena.WRONG_TEXT)
    found = arena.climb(virtual_phones[0], tmp_path, bundle=bundle)
    assert arena.layer(found) == ("threads", "output_wrong")
    assert found.failing is not None
    assert found.failing.threads == 8
    assert found.workarounds[0].changed == {"threads": 2}
    tried = [record.config.threads for record in RunFolder(tmp_path / "run").records()]
    assert tried[:5] == [1, 1, 8, 5, 3]
    assert "works-1.toml" in found.workarounds[0].command


def test_a_crash_at_long_prompts_is_bisected_to_the_length_that_works(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    bundle = arena.bent(tmp_path / "bent", "prompt > 40", arena.CRASH)
    found = arena.climb(virtual_phones[0], tmp_path, bundle=bundle)
    assert arena.layer(found) == ("prompt", "crash")
    assert found.workarounds[0].changed == {"prompt_tokens": 40}


def test_a_phone_that_kills_for_memory_breaks_the_load(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    bundle = arena.synthetic(tmp_path / "greedy", "peak_mb=400")
    found = arena.climb(virtual_phones[1], tmp_path, bundle=bundle, workaround=False)
    assert arena.layer(found) == ("load", "out_of_memory")
    assert "lowmemorykiller: Kill" in text(found)


def test_a_phone_that_throttles_breaks_the_last_rung(
    virtual_phones: list[Endpoint], arena: ModuleType, tmp_path: Path
) -> None:
    bundle = arena.synthetic(tmp_path / "works", "mode=work", "token_ms=8")
    found = arena.climb(virtual_phones[1], tmp_path, bundle=bundle, sizes=replace(arena.SIZES, sustain_s=7.0))
    last = list(RunFolder(tmp_path / "run").records())[-1]
    if last.thermal is None or last.thermal.clock_ratio_min == 1.0:
        pytest.skip("this computer is too busy: the phone had too little of a core to get warm")
    assert arena.layer(found) == ("sustained", "throttled")
    assert "The phone lowers its clocks to protect itself from heat" in text(found)
    assert found.workarounds == ()
