"""Speeds as MNN's apps show and log them."""

from __future__ import annotations

import math

import pytest

from harness.runners.lines import read_lines
from harness.runners.mnn_app import AppSpeed, parse_app


def parse(text: str) -> tuple[AppSpeed, ...]:
    return parse_app(read_lines(text))


@pytest.mark.parametrize(
    "line",
    [
        "Decode: 20.5 ± 0.5 t/s",
        "decode 20.5±0.5 tok/s",
        "- **Decode:** 20.5 t/s ± 0.5",
        "⚡ Decode Speed: 20.5 ± 0.5 tokens/s",
        "* Decode speed = 20.5 ± 0.5 token/s *",
    ],
)
def test_a_labelled_speed_is_read_however_it_is_decorated(line: str) -> None:
    assert parse(line) == (AppSpeed("decode", 20.5, 0.5, None, None, line),)


def test_an_infinite_speed_is_given_as_it_is() -> None:
    for word in ("INFINITY", "inf", "∞"):
        (speed,) = parse(f"Decode: {word} t/s ± NaN")
        assert (speed.tps, math.isnan(speed.std or 0)) == (math.inf, True)


def test_lines_that_count_tokens_give_the_count() -> None:
    below = "Prefill: 0.25s, 32 tokens, 128.00 tokens/s"
    logged = "PERF | prefill: 32 tok in 0.25s (128.0 t/s) | decode: 8 tok in 0.50s (16.0 t/s) | history: 2 msgs"
    assert parse(below) == (AppSpeed("prefill", 128.0, None, 32, 0.25, below),)
    assert parse(f"06-01 12:00:00.000  10  11 D MNN_DEBUG: {logged}") == (
        AppSpeed("prefill", 128.0, None, 32, 0.25, logged),
        AppSpeed("decode", 16.0, None, 8, 0.5, logged),
    )


def test_the_ios_apps_line_tells_what_was_asked_for() -> None:
    line = "[MNN_BENCH] avg backend=metal prompt=32 decode=8 prefill_tok_s=128.00 decode_tok_s=16.00"
    assert parse(line) == (
        AppSpeed("prefill", 128.0, None, 32, None, line),
        AppSpeed("decode", 16.0, None, None, None, line, asked=8),
    )


@pytest.mark.parametrize(
    "line",
    [
        "Decode: fast",
        "Decode: 20.5",
        "Decode: 20.5 ms",
        "decoded 3 t/s",
        "# Decode: 20.5 t/s",
        "Decode: 1,5 t/s",
        "I decode 3 t/s",
    ],
)
def test_other_lines_give_no_speed(line: str) -> None:
    assert parse(line) == ()
