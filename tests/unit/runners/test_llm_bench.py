"""llm_bench: every layout gives the numbers that are in it, and a broken one gives none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.runners.lines import read_lines
from harness.runners.llm_bench import BenchLog, BenchRow, BenchSpeed, parse_bench

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"
HEAD = "| model | modelSize | backend | threads | precision | test | t/s |"
LINE = "| --- | ---: | --- | ---: | --- | --- | ---: |"
PP = "| q | 301.50 MiB | CPU | 3 | Low | pp48 | 211.25 ± 1.50 |"
PG_HEAD = HEAD.replace("t/s", "speed(tok/s)")
NOTE = "[llm_bench] -kv true is deprecated: use `-pg <pp>,<tg>` instead (`-p A -n B -kv true` == `-pg A,B`)."


def parse(*lines: str) -> BenchLog:
    return parse_bench(read_lines("\n".join(lines).encode()))


def numbers(log: BenchLog) -> list[float]:
    return [speed.tps for row in (*log.rows, *log.json_rows) for speed in row.speeds]


def test_a_row_is_read_whole() -> None:
    assert parse(HEAD, LINE, PP) == BenchLog(
        rows=(
            BenchRow(
                test="pp48",
                prompt_tokens=48,
                generate_tokens=0,
                speeds=(BenchSpeed("prefill", 211.25, 1.5, counted=True),),
                line=PP,
                model="q",
                model_size_bytes=int(301.5 * 2**20),
                weights_found=True,
                backend="cpu",
                threads=3,
                precision="low",
            ),
        )
    )


@pytest.mark.parametrize(
    ("head", "test", "rate", "tokens", "speeds"),
    [
        (HEAD, "tg24", "31.50 ± 0.25", (0, 24), [("decode", 31.5, 0.25, False)]),
        # Before 3.6 -pg gave one rate of both, over the tokens that were asked for.
        (HEAD, "pp9+tg7", "55.00 ± 5.00", (9, 7), [("both", 55.0, 5.0, False)]),
        (PG_HEAD, "pp9", "80.00 ± 2.00", (9, 0), [("prefill", 80.0, 2.0, True)]),
        (PG_HEAD, "tg7", "20.00 ± 2.00", (0, 7), [("decode", 20.0, 2.0, False)]),
        (
            PG_HEAD,
            "pp9+tg7",
            "80.00 ± 2.00<br>20.00 ± 1.00",
            (9, 7),
            [("prefill", 80.0, 2.0, True), ("decode", 20.0, 1.0, True)],
        ),
        (HEAD, "pp4", "inf ± -nan", (4, 0), [("prefill", float("inf"), None, True)]),
    ],
)
def test_each_kind_of_test_gives_its_rates(
    head: str, test: str, rate: str, tokens: tuple[int, int], speeds: list[tuple[str, float, float | None, bool]]
) -> None:
    log = parse(head, LINE, f"| q | 1.50 GiB | OPENCL | 4 | High | {test} | {rate} |")
    assert log.unread == ()
    (row,) = log.rows
    assert (row.prompt_tokens, row.generate_tokens, row.backend) == (*tokens, "opencl")
    got = [(s.phase, s.tps, s.std if s.std == s.std else None, s.counted) for s in row.speeds]
    assert got == speeds


@pytest.mark.parametrize(("note", "counted"), [([NOTE], True), ([], False)])
def test_the_old_layout_counts_tokens_only_where_the_tool_says_that_it_is_the_new_one(
    note: list[str], counted: bool
) -> None:
    head = "| model | modelSize | backend | threads | precision | llm_demo | speed(tok/s) |"
    row = "| q | 80.00 MiB | CPU | 2 | Low | prompt=30<br>decode=20 | 90.00 ± 1.00<br>40.00 ± 1.00 |"
    (read,) = parse(head, LINE, row, *note).rows
    assert [(speed.phase, speed.counted) for speed in read.speeds] == [("prefill", True), ("decode", counted)]


@pytest.mark.parametrize(
    ("line", "speeds"),
    [
        ("prompt=40 decode=60 77.25", (BenchSpeed("decode", 77.25, None, False),)),
        ("prompt=40, decode=60: 77.25 tok/s", (BenchSpeed("decode", 77.25, None, False),)),
        (
            "prompt=40 decode=60 300.5 ± 2.5 77.25 ± 0.5",
            (BenchSpeed("prefill", 300.5, 2.5, True), BenchSpeed("decode", 77.25, 0.5, False)),
        ),
    ],
)
def test_lines_without_a_table_are_read(line: str, speeds: tuple[BenchSpeed, ...]) -> None:
    assert parse(line).rows == (BenchRow("prompt=40 decode=60", 40, 60, speeds, line),)


def test_a_row_without_a_header_counts_only_if_it_names_its_unit() -> None:
    assert numbers(parse("| tg40 | 12.50 ± 0.50 t/s |")) == [12.5]
    broken = parse("| tg40 | 12.50 ± 0.50 |", PP)
    assert (numbers(broken), len(broken.unread)) == ([], 2)


def test_columns_that_are_not_known_are_no_harm() -> None:
    (row,) = parse(
        HEAD.replace("test", "newOption | test") + " speedup (t/s) |", PP.replace("pp48", "7 | pp48") + " +3 |"
    ).rows
    assert (row.speeds[0].tps, row.settings) == (211.25, (("newOption", "7"), ("speedup (t/s)", "+3")))


@pytest.mark.parametrize("line", ["pp40: 12.50 ± 0.50 t/s", "pp40 12.50 +/- 0.50 tok/s"])
def test_a_row_that_somebody_copied_is_read(line: str) -> None:
    assert parse(line).rows == (BenchRow("pp40", 40, 0, (BenchSpeed("prefill", 12.5, 0.5, True),), line),)
    assert parse(": 5 m/s", "tg: 5 t/s", "pp4 was 5 times faster", "pp40 12.50 t/s").rows == ()


def test_further_columns_are_kept_under_their_names() -> None:
    head = "| model | modelSize | backend | threads | precision | memory | mmap | test | t/s | loadingTime(s) |"
    row = "| q | 80.00 MiB | CPU | 2 | Low | High | true | pp8 | 90.00 ± 1.00 | 0.75 ± 0.25 |"
    (read,) = parse(head, row).rows
    assert read.settings == (("memory", "High"), ("mmap", "true"))
    assert (read.load_s, read.load_std_s, read.threads) == (0.75, 0.25, 2)


def test_a_column_is_found_by_its_name_wherever_it_stands() -> None:
    moved = parse("| t/s | test | model | threads |", "| 5.50 ± 0.50 | tg3 | q | 8 |")
    assert (numbers(moved), moved.rows[0].threads, moved.rows[0].model_size_bytes) == ([5.5], 8, None)


def test_the_size_of_a_missing_file_is_no_size() -> None:
    (row,) = parse(HEAD, PP.replace("301.50 MiB", "17179869184.00 GiB")).rows
    assert (row.model_size_bytes, row.weights_found) == (None, False)


def test_an_empty_test_of_old_versions_is_passed_over() -> None:
    assert parse(HEAD, PP.replace("pp48", "pp0+tg0").replace("211.25", "nan")) == BenchLog()


@pytest.mark.parametrize(
    "separator", ["±", "+/-", "+-", "Â±", "\ufffd"], ids=["utf8", "ascii", "short", "mojibake", "other-encoding"]
)
def test_the_spread_is_found_however_its_sign_was_saved(separator: str) -> None:
    (row,) = parse(HEAD, PP.replace("±", separator)).rows
    assert row.speeds == (BenchSpeed("prefill", 211.25, 1.5, True),)


@pytest.mark.parametrize(
    ("head", "row"),
    [
        (HEAD, PP.replace(" ±", "")),
        (HEAD, PP.replace("| 3 |", "| |")),
        (HEAD, PP.replace("| 3 |", "| three |")),
        (HEAD, PP.replace("pp48", "xx48")),
        (HEAD, PP.replace("pp48", "pp")),
        (HEAD, PP.replace("pp48", "pp48tg3")),
        (HEAD, PP.replace("MiB", "parsecs")),
        (HEAD, PP.replace("211.25 ± 1.50", "211.25 ± 1.50<br>3.00 ± 1.00")),
        (PG_HEAD, PP.replace("pp48", "pp48+tg3")),
        (HEAD, PP + " 5 |"),
        (HEAD, PP[:-2]),
        (HEAD, PP.replace("| Low ", "")),
        (HEAD.replace(" test |", ""), PP),
        (HEAD.replace("t/s", "requests/s"), PP),
        (HEAD.replace("modelSize", "size"), PP),
        (HEAD.replace("model |", "test |"), PP),
        (HEAD[:-2], PP),
    ],
)
def test_what_does_not_look_as_its_header_promises_is_shown_and_gives_no_number(head: str, row: str) -> None:
    log = parse(head, row)
    assert numbers(log) == []
    assert row[:300] in log.unread


@pytest.mark.parametrize("name", ["llm_bench_sweep", "llm_bench_pg", "llm_bench_default", "llm_bench_kv_deprecated"])
def test_a_captured_table_that_lost_lines_or_columns_gives_only_numbers_that_were_in_it(name: str) -> None:
    text = (SAMPLES / f"{name}.txt").read_text()
    lines = text.split("\n")
    true = numbers(parse(*lines))
    assert true
    table = [line for line in lines if line.startswith("|")]
    for lost in range(len(lines)):
        left = numbers(parse(*lines[:lost], *lines[lost + 1 :]))
        assert left in ([], [value for value in true if value in left])
        assert set(numbers(parse(*lines[:lost]))) <= set(true)
    for cut in range(len(text)):
        assert set(numbers(parse_bench(read_lines(text[:cut])))) <= set(true)
    for column in range(1, table[0].count("|")):
        for rows in (table[1:], table[:2]):
            broken = [_without(line, column) if line in rows else line for line in table]
            assert numbers(parse(*broken)) == []
            added = [line + " 1.00 ± 1.00 |" if line in rows else line for line in table]
            assert numbers(parse(*added)) == []


def _without(line: str, column: int) -> str:
    cells = line.split("|")
    return "|".join(cells[:column] + cells[column + 1 :])


def test_cells_in_another_order_than_their_header_give_no_number() -> None:
    cells = PP.strip("| ").split(" | ")
    for shift in range(1, len(cells)):
        turned = "| " + " | ".join(cells[shift:] + cells[:shift]) + " |"
        assert numbers(parse(HEAD, LINE, turned)) == []


def test_the_json_file_is_read_as_rows() -> None:
    told = {
        "model": "q",
        "modelSize": 0.5,
        "backend": "CUDA",
        "threads": 4,
        "precision": 2,
        "flashAttention": 1,
        "results": [
            {
                "type": "prefill_and_decode",
                "prompt_len": 20,
                "generate_len": 10,
                "prefill_tps": 300.5,
                "prefill_std": 1.5,
                "decode_tps": 40.25,
                "decode_std": 0.5,
            }
        ],
    }
    (row,) = parse(json.dumps(told)).json_rows
    assert (row.test, row.threads, row.precision, row.backend) == ("pp20+tg10", 4, "low", "cuda")
    assert row.model_size_bytes == 2**29
    assert row.speeds == (BenchSpeed("prefill", 300.5, 1.5, True), BenchSpeed("decode", 40.25, 0.5, True))
    older = {key: value for key, value in told.items() if key != "flashAttention"}
    assert [speed.counted for speed in parse(json.dumps(older)).json_rows[0].speeds] == [True, False]


def test_with_several_results_the_json_files_head_is_that_of_the_first_alone() -> None:
    results = [{"type": "prefill", "prompt_len": n, "tps": 9.5, "std": 0.5} for n in (8, 16)]
    told = {"model": "q", "modelSize": 1, "backend": "CPU", "threads": 4, "precision": 2, "results": results}
    assert [row.threads for row in parse(json.dumps(told)).json_rows] == [None, None]


@pytest.mark.parametrize(
    "results",
    [
        "[{}]",
        "[]",
        '[{"type":"prefill","prompt_len":8,"tps":"9","std":1}]',
        '[{"type":"x","tps":1,"std":1}]',
        "3",
        "[1",
    ],
)
def test_a_broken_json_file_gives_no_number(results: str) -> None:
    log = parse('{"model":"q","modelSize":1,"backend":"CPU","threads":4,"precision":2,"results":' + results + "}")
    assert (numbers(log), len(log.unread)) == ([], 1)


def test_a_text_with_tables_of_its_own_is_none_of_this() -> None:
    assert parse("| City | Country |", "| --- | --- |", "| Paris | France |", '{"results": 3}') == BenchLog()


def test_the_usage_text_is_known() -> None:
    assert parse("usage: ./llm_bench [options]") == BenchLog(usage=True)
