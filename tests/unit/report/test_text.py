from __future__ import annotations

import pytest

from harness.report.text import (
    backend_name,
    celsius,
    cut,
    listing,
    mebibytes,
    number,
    one_line,
    percent,
    plural,
    visible,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a\\x0db"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("nul\x00", "nul\\x00"),
        ("c1\x9b", "c1\\x9b"),
        ("abc\u202egnp", "abc\\u202egnp"),
        ("line\u2028end", "line\\u2028end"),
        ("lone\ud800", "lone\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("naïve 中文 🙂", "naïve 中文 🙂"),
        ("joined \u0645\u200c\u06cc", "joined \u0645\u200c\u06cc"),
    ],
)
def test_what_cannot_be_seen_becomes_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_text_on_one_line_has_no_line_ends_or_tabs() -> None:
    assert one_line(" a\n\tb\x00\x1bc ") == "a b\\x00\\x1bc"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (8.424, "8.42"),
        (9.996, "10.0"),
        (84.16, "84.2"),
        (99.96, "100"),
        (842.4, "842"),
        (8421, "8\u202f421"),
    ],
)
def test_a_figure_has_three_digits_and_no_exponent(value: float, shown: str) -> None:
    assert number(value) == shown


def test_sizes_change_unit_at_a_gibibyte() -> None:
    assert mebibytes(196 * 2**20) == "196 MiB"
    assert mebibytes(3 * 2**30) == "3.00 GiB"


def test_small_words() -> None:
    assert (celsius(41.25), percent(0.0213)) == ("41.2", "2.1 %")
    assert (plural(1, "cell"), plural(2, "cell"), plural(0, "cell")) == ("1 cell", "2 cells", "0 cells")
    assert (listing([]), listing(["a"]), listing(["a", "b"]), listing("abc")) == ("", "a", "a and b", "a, b and c")
    assert (cut("abcdef", 6), cut("abcdefg", 6)) == ("abcdef", "abcde…")
    assert (backend_name("opencl"), backend_name("x\x1by")) == ("OpenCL", "x\\x1by")
