"""Tensor cells in everything that is made of a run: the page, tables, files, summaries."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from harness.core.reasons import Reason
from harness.plan.tiers import TierRules
from harness.report import variants_view
from harness.report.chart import speed_chart
from harness.report.columns import kinds_of
from harness.report.frames import cells_frame, write_csv
from harness.report.html import report_html
from harness.report.junit import junit_xml
from harness.report.markdown import summary_md
from harness.report.page_data import page_data
from harness.report.picker import picker
from harness.report.provenance import provenance
from harness.report.recommend import choices
from harness.report.results_json import results_document
from harness.report.summary import summary_table
from harness.store.schema import CellRecord

ANY = {"tier": "low", "when": {}}
HOSTILE = '<img src=x onerror="alert(1)">|`\u202e'


@pytest.fixture(scope="module")
def cells(make: ModuleType) -> list[CellRecord]:
    """Two phones with three variants each, and one that a GPU computes wrongly."""
    figures = (("fp32", 40.0, 1.0), ("fp16", 31.0, 0.99987), ("int8", 22.0, 0.984))
    return [
        *(
            make.tensor(name, stored, latency=latency, cosine=cosine, n=30, same=0.99)
            for name in ("atlas", "birch")
            for stored, latency, cosine in figures
        ),
        make.tensor("atlas", "fp16", backend="opencl", threads=68, reason=Reason.OUTPUT_WRONG, latency=3.0),
    ]


@pytest.fixture(scope="module")
def page(make: ModuleType, parse, cells: list[CellRecord]):
    return parse(report_html(make.info(), cells))


def test_variants_stand_side_by_side_and_each_figure_leads_to_its_cell(page, cells: list[CellRecord]) -> None:
    by_tier = page.one("section", id="variants").all("table", cls="variants")[0]
    rows = [[cell.text for cell in row.children if not isinstance(cell, str)] for row in by_tier.one("tbody").all("tr")]
    assert [row[:6] for row in rows] == [
        ["fp32 ocr-fp32", "high worst of 2 phones", "10.5 MiB", "CPU low / low, 1 thread", "40.0", "44.0"],
        ["fp16 ocr-fp16", "high worst of 2 phones", "5.34 MiB", "CPU low / low, 1 thread", "31.0", "34.1"],
        ["int8 ocr-int8", "high worst of 2 phones", "2.77 MiB", "CPU low / low, 1 thread", "22.0", "24.2"],
    ]
    assert rows[2][9:12] == ["0.984 over 25 real inputs", "99.0 %", "0.16"]
    links = {link.attributes["href"] for link in by_tier.all("a")}
    assert links <= {f"#cell-{cell.cell_id[:12]}" for cell in cells}
    assert page.all("tr", id=next(iter(links))[1:])


def test_what_was_refused_stands_at_its_variant(page) -> None:
    by_phone = page.one("section", id="variants").all("table", cls="variants")[1]
    assert "OpenCL low / low, mode 68: output_wrong" in by_phone.text


def test_a_run_without_language_models_shows_nothing_of_them(page) -> None:
    for section in ("speed", "spoken", "recommended", "picker"):
        assert page.all("section", id=section) == []
    assert "tok/s" not in page.one("table", cls="sortable").text
    heads = [cell.text for cell in page.all("table", cls="cells")[1].one("thead").all("th")]
    assert heads[4:10] == [
        "latency p50 ms", "latency p90 ms", "accuracy kept cosine", "load ms", "peak RSS", "least free memory"
    ]  # fmt: skip
    assert "No language model was run" in page.one("section", id="tiers").text


def test_a_table_has_as_many_fields_as_heads(page) -> None:
    for table in page.all("table", cls="cells")[1:]:
        heads = len(table.one("thead").all("th"))
        for row in table.one("tbody").all("tr"):
            fields = [cell for cell in row.children if not isinstance(cell, str)]
            assert sum(int(cell.attributes.get("colspan", 1)) for cell in fields) == heads


def test_a_run_of_both_has_the_columns_of_both_and_says_what_does_not_apply(make: ModuleType, parse, cells) -> None:
    page = parse(report_html(make.info(), [*cells, make.record()]))
    table = page.all("table", cls="cells")[1]
    assert [cell.text for cell in table.one("thead").all("th")][5:11] == [
        "TTFT p50 ms", "prefill tok/s ± MAD", "decode tok/s ± MAD", "latency p50 ms", "latency p90 ms",
        "accuracy kept cosine",
    ]  # fmt: skip
    notes = page.one("section", id="phone-1").text
    assert "TTFT, prefill, decode : a tensor cell generates no text" in notes
    assert "only of models that are no language models" in notes


def test_the_page_of_language_models_has_no_section_of_variants(make: ModuleType, parse) -> None:
    page = parse(report_html(make.info(), [make.record()]))
    assert page.all("section", id="variants") == []
    assert "latency" not in page.all("table", cls="cells")[1].one("thead").text


def test_names_from_outside_are_escaped(make: ModuleType, parse) -> None:
    cell = make.tensor(detail=HOSTILE, reason=Reason.OUTPUT_WRONG)
    hostile = {"name": HOSTILE, "stored": HOSTILE, "source": HOSTILE}
    tensors = cell.output.tensors.model_copy(update={"reference": HOSTILE, "held_to": HOSTILE})
    cells = [
        each.model_copy(
            update={
                "model": each.model.model_copy(update=hostile),
                "output": each.output.model_copy(update={"tensors": tensors}),
            }
        )
        for each in (cell, make.tensor())
    ]
    text = report_html(make.info(), cells)
    assert "<img" not in text
    assert "\u202e" not in text
    assert parse(text).one("section", id="variants").all("img") == []
    summary = summary_md(make.info(), cells)
    assert "<img" not in summary
    assert "|`" not in summary


def test_of_many_phones_so_many_are_listed_and_all_count(make: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants_view, "_PHONE_ROWS", 2)
    cells = [make.tensor(f"phone-{nth}", latency=10.0 + nth) for nth in range(5)]
    labels = {cell.phone.id: cell.phone.name for cell in cells}
    ids = {cell.cell_id: cell.cell_id for cell in cells}
    [model] = variants_view.variants_view(cells, (), TierRules.model_validate({"rules": [ANY]}), labels, ids)
    assert (len(model.phones), model.unlisted) == (2, 3)
    assert (model.tiers[0].of, model.tiers[0].figures[0].text) == ("worst of 5 phones", "14.0")
    assert model.tiers[0].says == "the rules promise nothing for this tier"


def test_the_method_defines_latency_and_accuracy(page) -> None:
    text = page.one("section", id="method").text
    assert "from the inputs handed to the engine to the outputs in the program's memory" in text
    assert "p90 needs 20 inferences, p99 200" in text
    assert "Over random inputs it says little" in text


def test_the_pages_data_has_columns_of_tensor_cells_only_where_there_are_some(make: ModuleType, cells) -> None:
    data = page_data(cells, {"id-of-atlas": "atlas", "id-of-birch": "birch"})
    assert data["kinds"] == {"language": False, "tensor": True}
    assert data["figures"]["latency"] == [40.0, 31.0, 22.0, 40.0, 31.0, 22.0, 3.0]
    assert data["figures"]["cosine"][:3] == [1.0, 0.99987, 0.984]
    without = page_data([make.record()], {"id-of-atlas": "atlas"})
    assert (without["kinds"], "latency" in without["figures"]) == ({"language": True, "tensor": False}, False)


def test_the_flat_table_has_latency_and_accuracy_of_ok_cells(make: ModuleType, cells, tmp_path: Path) -> None:
    frame = cells_frame([*cells, make.record()])
    wanted = ["stored", "latency_p50_ms", "latency_p90_ms", "latency_n", "cosine", "same_positions", "accuracy_real"]
    assert frame.loc[2, wanted].tolist() == ["int8", 22.0, pytest.approx(24.2), 30, 0.984, 0.99, True]
    refused = frame.loc[6]
    assert refused["latency_p50_ms"] is refused["cosine"] is refused["decode_tps"]  # <NA>, all of them
    assert refused["refused_latency_p50_ms"] == 3.0
    assert frame.loc[7, wanted].isna().all()
    text = write_csv(make.run_folder(tmp_path / "run", make.info(), cells)).read_text()
    assert "int8" in text.splitlines()[3]
    assert results_document(make.info(), cells)["cells"][2]["latency_p50_ms"] == 22.0


def test_what_is_of_language_models_alone_leaves_tensor_cells_out(make: ModuleType, cells) -> None:
    assert choices(cells) == []
    assert picker(cells, {"id-of-atlas": "atlas"}, [cell.cell_id for cell in cells]).columns == ()
    both = [*cells, make.record()]
    assert (picker(both, {"id-of-atlas": "atlas"}, [cell.cell_id for cell in both]).others) == 0
    assert speed_chart(cells).says == "There is no chart: no ok cell is of a language model."
    assert len(speed_chart(both).points) == 1
    assert (kinds_of(both).language, kinds_of(both).tensor) == (True, True)


def test_provenance_tells_how_weights_are_stored_and_from_what(make: ModuleType, cells) -> None:
    models = dict(provenance(make.info(), cells))["Models"]
    assert models[2][0] == f"ocr-int8, 2.77 MiB of weights, 8 bits, stored as int8, converted from {'5' * 64}"


def test_a_terminal_shows_latency_where_tokens_a_second_stand(cells) -> None:
    console = Console(width=120, file=io.StringIO())
    console.print(summary_table(cells))
    text = console.file.getvalue()
    assert "p50  p90" in text
    assert "tok/s" not in text
    assert "(3.00)" in text
    assert "kept: cosine similarity with the reference" in text


def test_a_summary_has_the_variants_and_what_to_ship(make: ModuleType, cells) -> None:
    text = summary_md(make.info(), cells)
    row = (
        "| <code>ocr-fp32</code> | <code>int8</code> | <code>high</code> | 2.77 MiB | "
        "<code>CPU low / low, 1 thread</code> | 22.0 | 24.2 | 90.0 | 0.984 |"
    )
    assert row in text
    assert "decode tok/s" not in text
    assert "**What to ship**" in text


def test_junit_has_a_case_for_each(make: ModuleType, cells) -> None:
    text = junit_xml(make.info(), cells).decode()
    assert (text.count("<testcase"), text.count("rejected.product")) == (7, 1)
