from __future__ import annotations

from types import ModuleType

from harness.report.besides import Remark, as_lines, beside, deciding, remarks, warning_codes


def test_what_decides_is_told_from_what_was_noted_besides(make: ModuleType) -> None:
    info, warning = make.note("prepare", "odd"), make.note("recovered", "was lost\nand back", "warning")
    error = make.note("crash", "signal 11", "error")
    cell = make.record(findings=[error, info, warning])
    assert [finding.code for finding in deciding(cell)] == ["crash"]
    assert as_lines(beside(cell)) == ["warning recovered: was lost and back", "info prepare: odd"]
    assert warning_codes(cell) == ["recovered"]


def test_each_sentence_is_said_once_a_phone_and_warnings_come_first(make: ModuleType) -> None:
    atlas = [cell for cell in make.a_night() if cell.phone.name == "atlas"]
    assert remarks(atlas) == (
        Remark("warning", "lease", (("taken over from ada, whose lease lapsed", 1),)),
        Remark("warning", "prepare_refused", (("animations could not be set: permission denied", 1),)),
        Remark("warning", "recovered", (("the phone was lost and came back (reconnect)", 2),)),
        Remark("info", "foreground_app", (("in front: com.example.home", 1),)),
        Remark("info", "cool_down", (("skin stays at 36.4 °C", 1), ("skin stays at 36.9 °C", 1))),
    )


def test_a_sentence_that_a_cell_says_twice_counts_once(make: ModuleType) -> None:
    cell = make.record(findings=[make.note("recovered", "back", "warning")] * 2)
    assert remarks([cell, cell]) == (Remark("warning", "recovered", (("back", 2),)),)
