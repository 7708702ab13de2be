"""Lines out of whatever a terminal, a phone's log or an editor left."""

from __future__ import annotations

import pytest

from harness.runners.lines import Line, read_lines, split_prefix

SAID = "Can't Find type=7 backend, use 0 instead"


@pytest.mark.parametrize(
    "prefix",
    [
        "I/MNNJNI: ",
        "E/MNNJNI(12345): ",
        "I/MNNJNI ( 4711): ",
        "I MNNJNI  : ",
        "03-14 15:09:26.535  3141  5926 E MNNJNI  : ",
        "2026-03-14 15:09:26.535897  3141  5926 I MNNJNI: ",
        "03-14 15:09:26.535 +0100 10123  3141  5926 W MNNJNI  : ",
        "03-14 15:09:26.535 I/MNNJNI( 3141): ",
        "2026-03-14 15:09:26.535  3141-5926  MNNJNI                  com.example.app                      E  ",
        "2026-03-14 15:09:26.535 3141-5926/com.example.app E/MNNJNI: ",
    ],
)
def test_a_log_prefix_is_taken_off_and_its_tag_kept(prefix: str) -> None:
    assert split_prefix(prefix + SAID) == Line(SAID, "MNNJNI", prefix + SAID)


@pytest.mark.parametrize(
    "text", ["I agree: yes", "A: reset done.", "I/O: full", "E = mc: a law", "12:30 I left: early", "V for Vendetta"]
)
def test_a_sentence_is_no_log_line(text: str) -> None:
    assert split_prefix(text) == Line(text, None, text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n", "\r"])
def test_all_line_ends_are_line_ends(end: str) -> None:
    assert [line.text for line in read_lines(f"a{end}{end}b{end}".encode())] == ["a", "", "b"]


def test_any_encoding_is_read() -> None:
    assert [line.text for line in read_lines("1 ± 2".encode("utf-16"))] == ["1 ± 2"]
    assert [line.text for line in read_lines("1 ± 2".encode("utf-8-sig"))] == ["1 ± 2"]
    assert [line.text for line in read_lines("1 ± 2".encode("latin-1"))] == ["1 \ufffd 2"]
    assert read_lines(b"") == ()


def test_colours_are_taken_off() -> None:
    assert read_lines(b"\x1b[31mred\x1b[0m") == (Line("red", None, "red"),)


@pytest.mark.parametrize(
    ("text", "says"),
    [("# command: x", "command: x"), ("#x", "x"), ("#################", None), ("x # y", None), ("## 2", None)],
)
def test_a_note_is_told_from_a_ruler(text: str, says: str | None) -> None:
    assert split_prefix(text).comment == says
