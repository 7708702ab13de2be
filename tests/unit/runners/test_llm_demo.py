"""llm_demo: its times, its summary of several versions, and the text that it has no mark for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.runners.lines import read_lines
from harness.runners.llm_demo import DemoLog, answer, parse_demo

SAMPLES = Path(__file__).parents[2] / "data" / "mnn"
SUMMARY = """
#################################
prompt tokens num = 31
decode tokens num = 17
 vision time = 0.00 s
  audio process time = 0.00 s
prefill time = 0.10 s
 decode time = 0.34 s
 sample time = 0.01 s
prefill speed = 310.00 tok/s
 decode speed = 50.00 tok/s
 audio RTF = -nan
##################################
"""
RUN = """config path is m/config.json
The device supports: i8sdot:1, fp16:1, i8mm: 0, sve2: 0
main, 99, cost time: 210.500000 ms
Prepare for tuning opt Begin
Prepare for tuning opt End
main, 108, cost time: 30.250000 ms
prompt file is prompt.txt
Bears sleep in winter.
# Berries
| bear | berry |
"""
WHOLE = DemoLog(
    load_ms=210.5,
    tuning_ms=30.25,
    prompt_tokens=31,
    decode_tokens=17,
    prefill_s=0.1,
    decode_s=0.34,
    sample_s=0.01,
    prefill_tps=310.0,
    decode_tps=50.0,
    text="Bears sleep in winter.\n| bear | berry |",
    summary=True,
)


def parse(text: str) -> tuple[DemoLog, ...]:
    return parse_demo(read_lines(text.encode()))


def test_a_run_is_read_whole() -> None:
    assert parse(RUN + SUMMARY) == (WHOLE,)
    assert parse((RUN + SUMMARY).replace("\n", "\r\n")) == (WHOLE,)


def test_two_runs_in_one_file_are_two() -> None:
    assert parse((RUN + SUMMARY) * 2) == (WHOLE, WHOLE)
    assert [log.decode_tokens for log in parse(SUMMARY * 2)] == [17, 17]


def test_a_summary_from_the_phones_log_has_no_text() -> None:
    logged = "\n".join(f"03-14 15:09:26.535  3141  5926 I MNNJNI  : {line}" for line in SUMMARY.split("\n"))
    (log,) = parse(logged)
    assert (log.prompt_tokens, log.decode_tps, log.text, log.text_seen) == (31, 50.0, "", False)


@pytest.mark.parametrize(
    ("printed", "value"),
    [("nan", math.nan), ("-nan", math.nan), ("-nan(ind)", math.nan), ("inf", math.inf), ("1e3", 1000.0), ("7", 7.0)],
)
def test_what_is_no_number_is_given_as_it_is(printed: str, value: float) -> None:
    (log,) = parse(SUMMARY.replace("50.00", printed))
    assert log.decode_tps is not None
    assert (log.decode_tps == value) or (math.isnan(log.decode_tps) and math.isnan(value))


def test_older_and_shorter_summaries_are_read() -> None:
    old = "prompt tokens num  = 5\ndecode tokens num  = 6\ndecode speed = 9.00 tok/s\n"
    (log,) = parse(old)
    assert (log.prompt_tokens, log.decode_tokens, log.prefill_tps, log.decode_tps) == (5, 6, None, 9.0)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("decode speed = 50.00 tok/s", "decode speed = fast"),
        ("decode speed = 50.00 tok/s", "decode speed = 50.00"),
        ("decode speed = 50.00 tok/s", "decode speed = 50.00 s"),
        ("decode speed = 50.00 tok/s", "decode speed = 50.00 tok/s 3"),
        ("decode tokens num = 17", "decode tokens num = 17.5"),
        ("decode tokens num = 17", "decode tokens num = -3"),
        ("prefill time = 0.10 s", "prefill time = 100 ms"),
    ],
)
def test_a_line_with_another_unit_or_no_number_is_shown_and_gives_none(good: str, bad: str) -> None:
    (log,) = parse(SUMMARY.replace(good, bad))
    assert [line.strip() for line in log.unread] == [bad]
    key = {"decode speed": log.decode_tps, "decode tokens": log.decode_tokens, "prefill time": log.prefill_s}
    assert next(value for name, value in key.items() if bad.startswith(name)) is None


def test_the_engines_words_behind_a_piece_of_text_are_not_the_models() -> None:
    (log,) = parse(RUN + "Then[Error]: LLM in error state. Status: 4\n" + SUMMARY)
    assert log.text == WHOLE.text


def test_a_summary_cut_anywhere_gives_only_numbers_that_were_in_it() -> None:
    text = RUN + SUMMARY
    for cut in range(len(text)):
        for log in parse(text[:cut]):
            assert log.decode_tps in (None, 50.0)
            assert log.prefill_tps in (None, 310.0)
            assert log.decode_s in (None, 0.34)


def test_usage_and_other_tools_are_told_apart() -> None:
    assert parse("Usage: ./llm_demo config.json <prompt.txt>\n") == (DemoLog(text_seen=False, usage=True, text=""),)
    assert parse("hello\n") == ()
    assert parse((SAMPLES / "MNNV2Basic_cpu.txt").read_text()) == ()


def test_without_marks_everything_that_no_machine_wrote_is_the_text() -> None:
    lines = read_lines("# llm backend: opencl\nprompt tokens num = 8\ndecode tokens num = 9\nHello\n")
    assert answer(lines) == "Hello"
