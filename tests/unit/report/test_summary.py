from __future__ import annotations

from types import ModuleType

from rich.console import Console

from harness.core.reasons import Reason
from harness.report.summary import headline, summary_table


def shown(records, *, width: int = 100, colour: bool = False) -> str:
    console = Console(
        width=width, force_terminal=colour, color_system="standard" if colour else None, no_color=not colour
    )
    with console.capture() as capture:
        console.print(summary_table(records))
    return capture.get()


def test_one_phone_and_one_cell_are_singular(make: ModuleType) -> None:
    assert headline([make.record()], 1) == "1 phone, 1 cell: 1 ok"


def test_what_phones_lack_is_said_once_in_brackets(make: ModuleType) -> None:
    names = ("atlas", "birch")
    cells = [make.record(name, threads=threads) for name in names for threads in (1, 2, 4, 8)]
    lacking = [
        make.record(name, backend=backend, reason=Reason.BACKEND_MISSING_ON_PHONE)
        for name in names
        for backend in ("opencl", "vulkan")
    ]
    assert headline([*cells, *lacking], 2) == (
        "2 phones, 12 cells: 8 ok, 4 unsupported (no OpenCL, no Vulkan on these phones)"
    )


def test_what_one_phone_lacks_is_said_of_it(make: ModuleType) -> None:
    lacking = make.record(backend="opencl", reason=Reason.BACKEND_MISSING_ON_PHONE)
    unbuilt = make.record("birch", backend="vulkan", reason=Reason.BACKEND_NOT_BUILT)
    big = make.record("birch", model="whale", reason=Reason.MODEL_TOO_BIG)
    assert headline([lacking], 1) == "1 phone, 1 cell: 1 unsupported (no OpenCL on this phone)"
    assert headline([lacking, unbuilt, big], 3) == (
        "3 phones, 3 cells: 3 unsupported (no OpenCL, Vulkan not built, whale too big on 1 of 3 phones)"
    )


def test_every_verdict_is_counted_with_its_reasons(make: ModuleType) -> None:
    assert headline(make.all_verdicts(), 2) == (
        "2 phones, 15 cells: 7 ok, 2 rejected (1 backend_fallback, 1 throttled), 2 failed (1 crash, 1 device_lost), "
        "3 unsupported (no Vulkan on these phones; no OpenCL on 1 of 2 phones), 1 skipped (out_of_time)"
    )


def test_a_shared_reason_is_not_counted_twice(make: ModuleType) -> None:
    cells = [make.record(threads=n, reason=Reason.NOISY) for n in (1, 2)]
    assert headline(cells, 1) == "1 phone, 2 cells: 2 rejected (noisy)"


def test_nothing_run_is_said_so() -> None:
    assert headline([], 2) == "2 phones, no cell was run"
    assert headline([], 0) == "no phone, no cell was run"


def test_the_table_has_a_line_per_cell_with_its_figures(make: ModuleType) -> None:
    lines = shown([make.record(threads=4, tps=123.4), make.record("birch", reason=Reason.CRASH)]).splitlines()
    ok = next(line for line in lines if line.lstrip().startswith("atlas"))
    assert ok.split() == ["atlas", "CPU", "4", "low", "187", "342", "123", "196", "41.2", "ok"]
    failed = next(line for line in lines if line.lstrip().startswith("birch"))
    assert failed.split() == ["birch", "CPU", "1", "low", *["—"] * 5, "failed:", "crash"]


def test_a_refused_figure_stands_in_brackets_without_colour_too(make: ModuleType) -> None:
    page = shown([make.fallback(tps=77.7)])
    assert "(77.7)" in page
    assert page.count("77.7") == 1
    assert "measured but refused" in page
    assert "\x1b[" not in page


def test_at_100_columns_no_reason_is_broken_and_nothing_is_wider(make: ModuleType) -> None:
    cells = [make.record("a-phone-with-a-long-name", threads=n, reason=r) for n, r in enumerate(Reason, start=1)]
    cells += [make.record("b", model="another-model"), make.fallback()]
    page = shown(cells)
    assert max(len(line) for line in page.splitlines()) <= 100
    for reason in Reason:
        assert reason.code in page, reason.code
    assert "a-phone-…" in page
    assert "another-…" in page


def test_with_one_model_a_cell_takes_one_line_at_100_columns(make: ModuleType) -> None:
    cells = make.all_verdicts()
    lines = shown(cells).splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("atlas", "birch"))] == [c.phone.name for c in cells]
    assert any(line.rstrip().endswith("unsupported: backend_missing_on_phone") for line in lines)


def test_a_narrow_terminal_folds_and_loses_nothing(make: ModuleType) -> None:
    page = shown([make.fallback()], width=72)
    assert max(len(line) for line in page.splitlines()) <= 72
    assert "backend_fallback" in "".join(page.split())


def test_markup_and_escapes_from_a_phone_stay_text(make: ModuleType) -> None:
    hostile = "[red]x\x1b[2J"
    page = shown([make.record(phone=make.phone(hostile), model="[bold]m")], colour=True)
    assert "[red]x\\x1b[2J" in page
    assert "\x1b[2J" not in page
    assert "[bold]m" in page


def test_verdicts_are_coloured_on_a_terminal(make: ModuleType) -> None:
    page = shown([make.record(), make.record(threads=2, reason=Reason.CRASH)], colour=True)
    assert "\x1b[32mok" in page
    assert "\x1b[1;31mfailed: crash" in page
