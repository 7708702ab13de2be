"""Readers of what a model wrote, of what people note beside it, and of times and speeds that differ."""

from __future__ import annotations

import pytest

from harness.commands.triage_judge import judged_entries
from harness.triage.entry import Entry, read_entry
from harness.triage.readers.benched import bench_rows
from harness.triage.readers.notes import note_entries
from harness.triage.readers.tables import table_entries
from harness.triage.readers.texts import text_entries
from harness.triage.readers.timings import timing_entries

HEAD = "| model | modelSize | backend | threads | precision | test | t/s |\n" + "| --- " * 7 + "|\n"
SUMMARY = (
    "#" * 33 + "\nprompt tokens num = 20\ndecode tokens num = 50\n decode time = 9.00 s\n decode speed = 5.56 tok/s\n"
)


def entries(text: str) -> list[Entry]:
    return [read_entry(line.encode(), "x", number, "text") for number, line in enumerate(text.splitlines(), 1)]


def shown(text: str) -> list[Entry]:
    """What the tables of a text show."""
    found = entries(text)
    return list(table_entries(found, bench_rows(found)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("!" * 40, ["text: loop detail=['!' is repeated again and again]"]),
        ("A: so " + "ü" * 20, ["text: loop detail=['ü' is repeated again and again]"]),
        ("A: baluSet열قرد.пол열د baluSet.конقدر alu", ["text: loop detail=[letters of 4 scripts stand within words]"]),
        (
            "Answer: It is far. " + "Go by bus or train. " * 8,
            ["text: sentence detail=['. Go by bus or train' is repeated to the end]"],
        ),
        ("A: yes.<end_of_turn><end_of_turn><end_of_turn>", ["text: stop token=(<end_of_turn>)"]),
        ("AI: 1 <|im_end|> <|im_end|> <|im_end|>", ["text: stop token=(<|im_end|>)"]),
    ],
)
def test_a_text_that_is_no_language_or_does_not_end_is_told(text: str, told: list[str]) -> None:
    assert [entry.text for entry in text_entries(entries(text))] == told


@pytest.mark.parametrize(
    "text",
    [
        "A: Hello is привет in Russian, 你好 in Chinese and مرحبا in Arabic.",
        "A: Wi-Fi用のUSBケーブルとGPUを買いました。とても速いです。",
        "Answer: no, no, no, I would not say so; it depends on many things.",
        '"prompt_template": "<|im_start|>user\\n%s<|im_end|>\\n<|im_start|>assistant\\n"',
        "===================================================",
        "Response: 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0",
    ],
)
def test_a_good_text_tells_nothing(text: str) -> None:
    assert list(text_entries(entries(text))) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[ - ] a.mnn      max =   50.000ms  min =   20.000ms  avg =   30.000ms", "name=[a.mnn] least=20 most=50"),
        (
            "total time : 9.000000 ms, total mflops : 12.500000\ntotal time : 2.000000 ms, total mflops : 12.500000",
            "name=[a model of 12.500000 mflops] least=2 most=9",
        ),
    ],
)
def test_times_of_the_same_work_that_differ_much_are_told(text: str, told: str) -> None:
    (entry,) = timing_entries(entries(text))
    assert entry.text.startswith(f"times: spread {told} ")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"infer cost {ms} ms" for ms in (90, 8, 9, 9, 8, 9, 8, 9)),
        "\n".join(f"infer cost {ms} ms" for ms in (8, 30, 9)),
        "[ - ] a.mnn      max =   25.000ms  min =   20.000ms  avg =   21.000ms",
        "total time : 9.000000 ms, total mflops : 12.500000\ntotal time : 2.000000 ms, total mflops : 3.500000",
        "main, 276, cost time: 900.0 ms\nmain, 284, cost time: 12.0 ms",
    ],
)
def test_times_that_agree_or_are_of_other_work_tell_nothing(text: str) -> None:
    assert list(timing_entries(entries(text))) == []


def test_prefill_that_falls_with_the_length_of_the_prompt_is_told_with_its_ends() -> None:
    rows = "".join(
        f"| m | 1.20 GiB | CPU | 4 | Low | pp{length} | {speed} ± 0.10 |\n"
        for length, speed in ((1024, "70.00"), (64, "120.00"), (256, "100.00"))
    )
    (entry,) = shown(HEAD + rows)
    assert entry.text == "prefill: longer least=64 most=1024 from=120 to=70"
    assert [one.line for one in entry.evidence] == [4, 5, 3]


@pytest.mark.parametrize("before", ["", "# a phone, cpu\n", "\n# a note\n\n"])
def test_a_summary_that_was_pasted_without_its_text_is_no_empty_text(before: str) -> None:
    assert [entry for entry in judged_entries("x", (before + SUMMARY).encode()) if "degenerate" in entry.text] == []


def test_a_summary_below_a_prompt_without_a_text_between_is_an_empty_text() -> None:
    told = [entry.text for entry in judged_entries("x", ("prompt file is p.txt\n" + SUMMARY).encode())]
    assert any("output_degenerate" in text and "the text is empty" in text for text in told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# memory=low: gibberish\n# memory=high: fine", "key=(memory) bad=(low) good=(high)"),
        ("# chunk: 128 -> 乱码\n# chunk: 512 -> 正常", "key=(chunk) bad=(128) good=(512)"),
        ("# threads=4 chunk=2 wrong\n# threads=4 chunk=3 right", "key=(chunk) bad=(2) good=(3)"),
    ],
)
def test_a_setting_that_two_notes_compare_is_told(text: str, told: str) -> None:
    assert [entry.text for entry in note_entries(entries(text))] == [f"notes: setting {told}"]


@pytest.mark.parametrize(
    "text",
    [
        "# memory=low: wrong\n# memory=high: wrong",
        "# memory=low: wrong with x, right with y\n# memory=high: right",
        "memory=low: wrong\nmemory=high: right",
        "# text=wrong\n# text=right",
    ],
)
def test_notes_that_compare_nothing_tell_nothing(text: str) -> None:
    assert list(note_entries(entries(text))) == []


def test_speeds_of_runs_that_go_up_and_down_are_told_and_those_that_only_fall_are_not() -> None:
    jumping, falling = ("\n".join(f"run {n}: {tps} tok/s" for n, tps in enumerate(speeds, 1)) for speeds in (
        (20, 9, 21, 8, 20), (40, 30, 20, 10, 8),
    ))  # fmt: skip
    assert [entry.text for entry in timing_entries(entries(jumping))] == ["speeds: spread least=8 most=21 runs=5"]
    assert list(timing_entries(entries(falling))) == []


@pytest.mark.parametrize(("other", "told"), [("9.5", ["speed: beyond ours=60 theirs=9.5 times=6"]), ("30", [])])
def test_a_decode_speed_is_compared_with_that_of_another_tool(other: str, told: list[str]) -> None:
    text = f"{HEAD}| m | 1.20 GiB | CPU | 4 | Low | tg64 | 60.00 ± 0.10 |\n# llama.cpp, same model: {other} tok/s\n"
    assert [entry.text for entry in shown(text)] == told
