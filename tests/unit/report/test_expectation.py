"""Is this phone slow: which figures of others count for a cell, what is said beside it, and when nothing is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.report.cells import phone_labels
from harness.report.expectation import expectation_figure, expectation_of, params_b, why_none
from harness.report.expectation_table import chip_of, kin_of, load_references, own_chips, own_references
from harness.report.expectation_view import expectation_rows, slow_lines
from harness.store.schema import CellRecord

HEAD = "soc,params_b_low,params_b_high,quant_bits,backend,engine,phase,low_tps,high_tps,source,measured,note\n"
ROW = "SM8550,1.3,2.1,4,cpu,llama.cpp,decode,15,20,https://example.org/1,2026-05,a phone"
# 1.7e9 weights of 4 bits and one of scales.
QWEN = {"name": "qwen3-1.7b", "hash": "q" * 64, "weight_bytes": 1_062_500_000, "quant_bits": 4}


@pytest.fixture
def qwen(make: ModuleType) -> Any:
    """Return a function that makes a cell of a 1.7 B model with 4 threads."""

    def made(tps: float, soc: str | None = "SM8550-AB", *, name: str = "atlas", **over: Any) -> CellRecord:
        metrics, model = over.pop("metrics", {}), {**QWEN, **over.pop("weights", {})}
        nulls = {"soc": "unknown"} if soc is None else {}
        base = make.record(name, tps=tps, **{"threads": 4, **over})
        plain = base.model_dump(by_alias=True)
        plain |= {"model": model, "phone": make.phone(name, soc=soc)}
        plain["nulls"] = {**plain["nulls"], **nulls, "quant_bits": "the model does not tell"}
        if metrics:
            plain["metrics"] |= metrics
        return CellRecord.model_validate(plain)

    return made


@pytest.mark.parametrize(
    ("tps", "says"), [(9.0, "slower than"), (12.0, "as expected"), (25.0, "as expected"), (45.0, "faster than")]
)
def test_the_same_chip_with_a_model_of_this_size_and_bits_counts_first(qwen: Any, tps: float, says: str) -> None:
    found = expectation_of(qwen(tps))
    assert found is not None
    assert (found.says, found.basis, found.low_tps, found.high_tps) == (says, "same chip", 15.48, 19.7)
    assert len(found.sources) == 3
    assert found.sources[0].startswith(
        "PocketPal (llama.cpp), 2026-05: Galaxy S23; Qwen3-1.7B Q4_0 (https://github.com/"
    )


def test_it_is_said_in_a_few_words(qwen: Any) -> None:
    slow = expectation_figure(qwen(9.0))
    assert (slow.text, slow.why) == ("slower than the 15.5 to 19.7 tok/s that others report", None)
    assert "a hint, no proof; PocketPal" in slow.title
    assert expectation_figure(qwen(17.0)).text == "as expected"
    assert expectation_figure(qwen(17.0, threads=1)).why == "others use 4 threads or more"


def test_a_gpu_is_held_against_gpus(qwen: Any) -> None:
    found = expectation_of(qwen(12.0, backend="opencl", threads=68))
    assert found is not None
    assert (found.says, found.low_tps, found.high_tps) == ("as expected", 12.1, 17.9)


def test_other_bits_and_another_size_are_another_matter(qwen: Any) -> None:
    eight = {"quant_bits": 8, "weight_bytes": 1_912_500_000}
    small = {"weight_bytes": 85_000_000}
    assert params_b(qwen(9.0)) == pytest.approx(1.7)
    assert params_b(qwen(9.0, weights=eight)) == pytest.approx(1.7)
    assert expectation_of(qwen(9.0, weights=eight)) is None
    assert expectation_of(qwen(9.0, weights=small)) is None
    assert expectation_of(qwen(9.0, weights={"quant_bits": None})) is None


def test_chips_with_the_same_big_core_stand_in_with_a_wider_range(qwen: Any) -> None:
    found = expectation_of(qwen(15.0, "Tensor G3"))
    assert found is not None
    assert found.basis == "same kind of core"
    assert (found.low_tps, found.high_tps) == (pytest.approx(15.48 / 1.5), pytest.approx(19.7 * 1.5))
    assert found.words == "as expected: 10.3 to 29.5 tok/s that others report for chips of its kind"
    assert expectation_of(qwen(15.0, "Tensor G3", backend="opencl", threads=68)) is None


@pytest.mark.parametrize(
    ("backend", "tps", "says", "low", "high"),
    [
        ("cpu", 6.0, "slower than", 7.0, 20.0),
        ("cpu", 12.0, "as expected", 7.0, 20.0),
        ("opencl", 6.0, "as expected", 5.0, 40.0),
        ("opencl", 4.0, "slower than", 5.0, 40.0),
    ],
)
def test_a_chip_nobody_reported_is_held_against_its_own_memory(
    qwen: Any, backend: str, tps: float, says: str, low: float, high: float
) -> None:
    memory = {"bandwidth_gb_per_s": 21.25, "roofline_ratio": tps / 20.0}
    found = expectation_of(qwen(tps, "MT6835", backend=backend, threads=4, metrics=memory))
    assert found is not None
    assert (found.says, found.basis) == (says, "own memory")
    assert (found.low_tps, found.high_tps) == (pytest.approx(low), pytest.approx(high))
    assert found.sources[0].startswith("its cores read 21.2 GB/s; ")


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"reason": Reason.NOISY}, "only what is ok is held against what others report"),
        ({"threads": 2}, "others use 4 threads or more"),
        ({"config": {"kind": "sustained", "duration_s": 60.0}}, "others report short runs, not sustained ones"),
        ({"config": {"affinity": "0-3"}}, "it was kept on chosen cores"),
        ({"config": {"context_tokens": 4096}}, "others report short histories"),
        (
            {"soc": "MT6835"},
            "nobody's figures for this chip, model size and bits are known, nor the speed of the phone's memory",
        ),
        (
            {"soc": None},
            "nobody's figures for this chip, model size and bits are known, nor the speed of the phone's memory",
        ),
        (
            {"soc": "MT6835", "metrics": {"bandwidth_gb_per_s": 20.0}},
            "nobody's figures are known, and which weights a token reads is not known either",
        ),
        (
            {"weights": {"weight_bytes": 85_000_000}, "metrics": {"bandwidth_gb_per_s": 20.0, "roofline_ratio": 0.1}},
            "nobody's figures are known, and in so small a model the memory does not set the pace",
        ),
    ],
)
def test_where_nothing_can_be_said_the_reason_is(qwen: Any, over: dict[str, Any], why: str) -> None:
    record = qwen(9.0, over.pop("soc", "SM8550"), **over)
    assert expectation_of(record) is None
    assert why_none(record) == why
    assert expectation_figure(record).why == why


def test_prefill_is_held_against_prefill(qwen: Any) -> None:
    found = expectation_of(qwen(17.0), phase="prefill")
    assert found is not None
    assert (found.measured_tps, found.low_tps, found.high_tps, found.says) == (341.6, 72.7, 119.8, "faster than")
    short = qwen(17.0, config={"prompt_tokens": 8})
    assert why_none(short, phase="prefill") == "others use longer prompts"
    assert why_none(qwen(17.0, "MT6835"), phase="prefill").startswith("nobody's figures for this chip")


def test_a_phone_has_one_line_when_its_best_cell_is_slow(qwen: Any) -> None:
    other = {"name": "another", "hash": "a" * 64}
    records = [
        qwen(8.0, threads=6), qwen(6.0, threads=4), qwen(40.0, threads=1),
        qwen(5.0, weights=other),
        qwen(7.0, name="birch", threads=6), qwen(16.0, name="birch", threads=4),
    ]  # fmt: skip
    assert slow_lines(records) == [
        "slower than expected: atlas: 5.00 tok/s of another (CPU, 4 threads), "
        "not the 15.5 to 19.7 tok/s that others report; a hint, see report.html"
    ]


def test_the_table_has_slow_phones_first_and_says_why_nothing_is_known(qwen: Any) -> None:
    records = [
        qwen(17.0, name="birch"), qwen(9.0, name="atlas"), qwen(9.0, "MT6835", name="cedar"),
        qwen(9.0, name="dogwood", reason=Reason.CRASH), qwen(60.0, name="elm"),
    ]  # fmt: skip
    rows = expectation_rows(records, phone_labels(records))
    assert [(row.phone, row.measured, row.low_high, row.verdict) for row in rows] == [
        ("atlas", "9.00", "15.5 to 19.7", "slower"),
        ("elm", "60.0", "15.5 to 19.7", "faster"),
        ("birch", "17.0", "15.5 to 19.7", "as expected"),
        ("cedar", "9.00", "", ""),
    ]
    assert [row.remarkable for row in rows] == [True, True, False, False]
    assert str(rows[3].hint.why).startswith("nobody's figures")


def test_the_page_shows_it_and_keeps_names_as_text(qwen: Any, make: ModuleType, parse: Any) -> None:
    from harness.report.html import report_html

    evil = "<script>alert(1)</script>"
    page = parse(report_html(make.info(evil), [qwen(9.0, name=evil), qwen(17.0, name="birch")]))
    section = page.one(id="expected")
    shown, folded = section.all("tbody")
    assert [cell.text for cell in shown.one("tr").all()][:6] == [
        evil, "qwen3-1.7b", "CPU, 4 threads", "9.00", "15.5 to 19.7", "slower",
    ]  # fmt: skip
    assert folded.one("tr").one("th").text == "birch"


def test_our_own_table_is_sound() -> None:
    rows = [row for group in own_references().values() for row in group]
    assert len(rows) >= 80
    assert {row.soc for row in rows} <= {chip.model for chip in own_chips().values()}
    assert all(row.source.startswith(("https://", "Hugging Face: ")) for row in rows)
    assert all(row.high_tps <= 3 * row.low_tps for row in rows)


def test_every_chip_of_the_table_is_found_by_its_own_model() -> None:
    for group in own_references().values():
        found = chip_of(group[0].soc)
        assert found is not None
        assert found.model == group[0].soc


@pytest.mark.parametrize(
    ("word", "model"),
    [
        ("SM8550-AB", "SM8550"),
        ("sm8550", "SM8550"),
        ("MT6899Z/CZA", "MT6899"),
        ("kona", "SM8250"),
        ("Tensor G3", "Tensor G3"),
        ("cliffs", None),
        ("SM0000", None),
        ("", None),
    ],
)
def test_a_phones_word_for_its_chip_is_understood(word: str, model: str | None) -> None:
    found = chip_of(word)
    assert (found.model if found else None) == model


def test_a_chip_whose_cores_nobody_checked_has_no_kin() -> None:
    dimensity, snapdragon = chip_of("MT6899"), chip_of("SM8750")
    assert dimensity is not None
    assert snapdragon is not None
    assert kin_of(dimensity) == ()
    assert kin_of(snapdragon) == ("SM8850",)


def test_a_good_row_is_read(tmp_path: Path) -> None:
    table = tmp_path / "reference.csv"
    table.write_text(HEAD + ROW + "\n")
    (row,) = load_references(table, frozenset({"SM8550"}))
    assert (row.params_b_high, row.quant_bits, row.low_tps, row.measured) == (2.1, 4, 15.0, "2026-05")


@pytest.mark.parametrize(
    ("was", "now", "column"),
    [
        ("SM8550", "SM9999", "soc"),
        ("1.3", "-1", "params_b_low"),
        ("1.3", "9", "the row"),
        (",4,", ",four,", "quant_bits"),
        ("cpu", "npu", "backend"),
        ("decode", "both", "phase"),
        (",15,", ",nan,", "low_tps"),
        (",15,20", ",21,20", "the row"),
        ("https://example.org/1", "", "source"),
        ("2026-05", "May", "measured"),
        ("a phone", "a phone,more", "None"),
        (",a phone", "", "note"),
    ],
)
def test_a_wrong_row_is_refused_by_line_and_column(tmp_path: Path, was: str, now: str, column: str) -> None:
    table = tmp_path / "reference.csv"
    table.write_text(HEAD + ROW + "\n" + ROW.replace(was, now, 1) + "\n")
    with pytest.raises(ConfigError, match=rf"^reference\.csv:3: {column} is wrong: "):
        load_references(table, frozenset({"SM8550"}))
