"""What the benchmark of many phones takes for right, and how it counts memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from benchmarks.fleet_cells import LOAD_MS, PREFILL_MS, TEXT, TOKEN_MS, Ordered
from benchmarks.process_memory import Tree
from harness.payload.bundle import read_bundle
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.store.schema import CellRecord

ORDERED = Ordered(cells=2, seconds=3)


@pytest.fixture(scope="module")
def factory(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "report" / "factory.py")


def right(factory: ModuleType, phone: str, prompt: int, **over: Any) -> CellRecord:
    """A record as it was ordered, or with another figure."""
    base = factory.record(phone, config={"prompt_tokens": prompt}).model_dump(mode="json", by_alias=True)
    base["metrics"]["decode_tps"]["median"] = over.get("decode", 1000 / TOKEN_MS)
    base["metrics"]["prefill_tps"]["median"] = over.get("prefill", prompt * 1000 / PREFILL_MS)
    base["output"]["text"] = over.get("text", TEXT * 3)
    sample = {
        "kind": "timed", "ttft_ms": 501.0, "prefill_ms": 500.0, "decode_tps": 10.0, "prompt_tokens": prompt,
        "generated_tokens": over.get("tokens", ORDERED.tokens), "finish": "length",
    }  # fmt: skip
    base["samples"] = [sample]
    return CellRecord.model_validate(base)


def all_right(factory: ModuleType) -> list[CellRecord]:
    return [right(factory, phone, prompt) for phone in ("atlas", "birch") for prompt in ORDERED.prompts]


def test_the_plan_has_the_cells_and_the_bundle_the_orders(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(ORDERED.plan())
    cells = cells_of(load_plan(tmp_path / "plan.toml"))
    assert [(cell.prompt_tokens, cell.generate_tokens) for cell in cells] == [(16, 21), (17, 21)]
    assert LOAD_MS + PREFILL_MS + 20 * TOKEN_MS == 3000
    words = read_bundle(ORDERED.write_bundle(tmp_path / "bundle")).manifest.extra_args
    assert list(words[:2]) == ["--synthetic", f"load_ms={LOAD_MS}"]
    assert words[-1] == f"text={TEXT}"


def test_nothing_is_wrong_with_what_was_ordered(factory: ModuleType) -> None:
    assert ORDERED.what_is_wrong(all_right(factory), phones=2) == []


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"decode": 9.79}, "decode is 9.790, ordered was 10.000"),
        ({"prefill": 34.0 * 0.89}, "prefill is 30.260, ordered was 34.000"),
        ({"tokens": 20}, "tokens is 20.000, ordered was 21.000"),
        ({"text": "something"}, "another text came out"),
    ],
)
def test_a_wrong_figure_is_told(factory: ModuleType, over: dict[str, Any], says: str) -> None:
    records = [*all_right(factory)[:-1], right(factory, "birch", 17, **over)]
    assert ORDERED.what_is_wrong(records, phones=2) == [f"birch, prompt 17: {says}"]


def test_a_cell_that_is_missing_or_there_twice_is_told(factory: ModuleType) -> None:
    records = all_right(factory)
    assert ORDERED.what_is_wrong(records[1:], phones=2) == ["3 of 4 cells have a record"]
    assert ORDERED.what_is_wrong([*records, records[0]], phones=2) == ["id-of-atlas: prompt 16 has 2 records"]


def test_memory_is_that_of_the_processes_and_all_below_them() -> None:
    hold = "import sys; data = bytearray(b'x') * 30_000_000; print(flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    with Tree([psutil.Process(process.pid)]) as tree:
        pass
    process.communicate()
    assert (tree.most_processes, tree.looks) == (2, 1)
    assert 30_000_000 < tree.most_bytes < 90_000_000
