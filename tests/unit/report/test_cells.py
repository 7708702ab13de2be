from __future__ import annotations

from types import ModuleType

from harness.core.reasons import Reason
from harness.report.cells import (
    Notes,
    by_phone,
    cell_label,
    phone_labels,
    pytest_id,
    value_at,
    why_unknown,
)


def test_a_cells_name_says_what_was_asked_and_what_ran(make: ModuleType) -> None:
    assert cell_label(make.fallback()) == "tiny-llama · OpenCL → CPU · mode 1 · low / low · 64 → 32"


def test_a_cells_name_has_whatever_else_sets_it_apart(make: ModuleType) -> None:
    config = {"kind": "sustained", "context_tokens": 512, "affinity": "big", "engine": {"use_mmap": True}}
    cell = make.record(threads=2, config=config, attempt=3, planned_phone="cedar")
    assert cell_label(cell).endswith(
        "· sustained · context 512 · affinity big · use_mmap = true · planned for cedar · attempt 3"
    )


def test_the_pytest_id_is_that_of_the_interfaces_page(make: ModuleType) -> None:
    cell = make.record(threads=4)
    assert pytest_id(cell) == f"test_generation[atlas-tiny-llama-cpu-t4-low-p64-g32-{cell.cell_id[:6]}]"


def test_an_unknown_value_has_its_own_reason_or_that_of_what_holds_it(make: ModuleType) -> None:
    ok, lost = make.record(), make.record(reason=Reason.DEVICE_LOST)
    assert value_at(ok, "metrics", "ttft_ms.p90") is None
    assert why_unknown(ok, "metrics", "ttft_ms.p90") == "fewer than 20 samples"
    assert value_at(lost, "metrics", "ttft_ms.p90") is None
    assert why_unknown(lost, "metrics", "ttft_ms.p90") == "the cell was not run"
    assert why_unknown(ok, "metrics", "load_ms") == "no reason was recorded"


def test_phones_of_one_name_are_told_apart_by_serial(make: ModuleType) -> None:
    twins = [make.record(phone=make.phone("twin", id=key, serial=f"S{key}")) for key in ("1", "2")]
    assert phone_labels([*twins, make.record("birch")]) == {
        "1": "twin (S1)",
        "2": "twin (S2)",
        "id-of-birch": "birch",
    }
    assert [len(group) for group in by_phone([*twins, twins[0]]).values()] == [2, 1]


def test_footnotes_are_numbered_by_reason_and_name_each_field_once() -> None:
    notes = Notes()
    figures = [notes.unknown("a", "x"), notes.unknown("b", "y"), notes.unknown("c", "x"), notes.unknown("a", "x")]
    assert [figure.note for figure in figures] == [1, 2, 1, 1]
    assert notes.fields_by_why == {"x": ["a", "c"], "y": ["b"]}
