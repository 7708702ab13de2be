from __future__ import annotations

from types import ModuleType

from harness.core.reasons import Reason
from harness.report.cells import phone_labels
from harness.report.page_data import short_ids
from harness.report.picker import Column, picker


def of(records):
    return picker(records, phone_labels(records), short_ids(records))


def shown(table) -> list[list[tuple[str, str, int] | None]]:
    return [[field and (field.text, field.below, field.level) for field in row.fields] for row in table.rows]


def test_each_field_is_the_fastest_proven_thread_count(make: ModuleType) -> None:
    table = of([make.record(threads=n, tps=tps) for n, tps in ((1, 20.0), (4, 60.0), (8, 40.0))])
    assert table.columns == (Column("tiny-llama", "CPU", "low / low"),)
    assert shown(table) == [[("60.0", "4 threads", 5)]]
    assert table.shape == "burst, 64 → 32 tokens"


def test_what_was_refused_has_its_reason_and_no_speed(make: ModuleType) -> None:
    records = [make.record(tps=30.0), make.fallback(tps=500.0), make.record("birch", reason=Reason.CRASH)]
    table = of(records)
    assert shown(table) == [
        [("30.0", "1 thread", 5), ("—", "backend_fallback", 0)],
        [("—", "crash", 0), None],
    ]
    assert table.rows[0].fields[1].title == "rejected: the engine ran another backend than asked"


def test_a_proven_speed_wins_over_a_faster_one_that_was_refused(make: ModuleType) -> None:
    records = [make.record(threads=8, tps=99.0, reason=Reason.THROTTLED), make.record(threads=2, tps=10.0)]
    assert shown(of(records)) == [[("10.0", "2 threads", 5)]]


def test_shades_go_by_the_fastest_phone_with_that_model(make: ModuleType) -> None:
    names = ("a", "b", "c", "d", "e")
    records = [make.record(name, tps=tps) for name, tps in zip(names, (100.0, 79.0, 50.0, 30.0, 10.0), strict=True)]
    records.append(make.record("a", model="large", tps=3.0))
    table = of(records)
    assert [row.fields[1].level for row in table.rows] == [5, 4, 3, 2, 1]
    assert table.rows[0].fields[0].level == 5
    assert table.models == (("large", 1), ("tiny-llama", 1))


def test_the_best_of_each_phone_and_model_is_marked(make: ModuleType) -> None:
    table = of([make.record(tps=30.0), make.record(precision="high", tps=20.0)])
    assert [(field.text, field.best) for field in table.rows[0].fields] == [("20.0", False), ("30.0", True)]


def test_cells_of_other_lengths_are_counted_and_not_compared(make: ModuleType) -> None:
    records = [make.record(threads=n) for n in (1, 2)] + [make.record(tps=900.0, config={"prompt_tokens": 8})]
    table = of(records)
    assert table.others == 1
    assert shown(table) == [[("48.0", "1 thread", 5)]]


def test_a_field_leads_to_its_cell(make: ModuleType) -> None:
    cell = make.record()
    assert of([cell]).rows[0].fields[0].cell == cell.cell_id[:12]


def test_a_run_without_cells_has_no_table() -> None:
    table = of([])
    assert (table.columns, table.rows, table.shape) == ((), (), "")
