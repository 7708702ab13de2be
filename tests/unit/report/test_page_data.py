from __future__ import annotations

import json
from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.report.cells import phone_labels
from harness.report.page_assets import packed, unpacked
from harness.report.page_data import Budget, page_data, short_ids
from harness.report.text import number


def words(data, name: str) -> list[str]:
    column = data["texts"][name]
    return [column["words"][place] for place in column["values"]]


def of(records, **more):
    return page_data(records, phone_labels(records), **more)


def test_every_cell_is_a_place_in_each_column(make: ModuleType) -> None:
    records = make.all_verdicts()
    data = of(records, raw_base="../run")
    assert data["count"] == len(data["ids"]) == len(records) == 15
    assert {len(column["values"]) for column in data["texts"].values()} == {15}
    assert {len(column) for column in data["figures"].values()} == {15}
    assert data["phones"] == ["atlas", "birch"]
    assert [data["phones"][place] for place in data["figures"]["phone"]] == [record.phone.name for record in records]
    assert words(data, "verdict") == [record.verdict.value for record in records]
    assert words(data, "raw")[0] == "../run/raw/0123456789ab/1/"


def test_a_word_stands_once_however_many_cells_say_it(make: ModuleType) -> None:
    data = of([make.record(threads=n) for n in range(1, 9)])
    assert data["texts"]["model"] == {"words": ["tiny-llama"], "values": [0] * 8}


def test_what_is_unknown_is_null_and_its_reason_is_there(make: ModuleType) -> None:
    data = of([make.record(reason=Reason.CRASH)])
    assert data["figures"]["decode"] == data["figures"]["rss"] == [None]
    assert "metrics: the cell was not run" in words(data, "nulls")[0].split("\n")


@pytest.mark.parametrize("tps", [8.421, 84.249, 99.96, 842.5, 18637.4, 0.004])
def test_a_speed_reads_in_the_table_of_all_cells_as_elsewhere(make: ModuleType, tps: float) -> None:
    [shown] = of([make.record(tps=tps)])["figures"]["decode"]
    assert number(shown) == number(tps)


def test_sizes_are_mebibytes_and_temperatures_tenths(make: ModuleType) -> None:
    figures = of([make.record()])["figures"]
    assert (figures["rss"], figures["free"], figures["start_c"], figures["clock"]) == ([196], [3072], [30.5], [100])


def test_ids_are_short_and_grow_where_two_are_alike(make: ModuleType) -> None:
    one, other, third = (make.record(cell_id=cell) for cell in ("a" * 64, "a" * 13 + "b" + "a" * 50, "c" * 64))
    assert short_ids([one, third]) == ["a" * 12, "c" * 12]
    assert short_ids([one, other, third]) == ["a" * 16, "aaaaaaaaaaaaabaa", "c" * 16]


def test_a_large_page_says_what_it_leaves_out(make: ModuleType) -> None:
    records = [make.record(threads=n, reason=Reason.CRASH, detail=f"{n} " + "x" * 80) for n in range(1, 6)]
    details = words(of(records, budget=Budget(one_text=50, column=100)), "detail")
    assert [len(text) for text in details[:2]] == [50, 50]
    assert set(details[2:]) == {
        "not in this page, which would grow too large; it is in results.jsonl and in the raw files"
    }


def test_hidden_characters_are_made_visible_in_every_text(make: ModuleType) -> None:
    evil = "a\x1b\u202eb"
    data = of(
        [
            make.record(
                phone=make.phone(evil), model=evil, reason=Reason.NOISY, detail=evil, findings=[make.note(evil, evil)]
            )
        ]
    )
    text = json.dumps(data, ensure_ascii=False)
    assert not set("\x1b\u202e") & set(text)
    assert text.count(r"\\x1b\\u202e") == 3
    assert json.loads(words(data, "findings")[0])[0][1:3] == [r"a\x1b\u202eb"] * 2


def test_what_is_packed_comes_out_as_it_was() -> None:
    value = {"name": "</script>é\u2028", "figures": [1, None, 2.5]}
    assert unpacked(packed(value)) == value
    with pytest.raises(ValueError, match="JSON"):
        packed({"speed": float("nan")})
