from __future__ import annotations

import pytest

from harness.core.lines import LONGEST_LINE_BYTES, LineBuffer


def test_lines_come_whole_however_they_were_cut() -> None:
    text = b"one\n\ntwo \xff\r\nthree"
    for size in (1, 2, 5, 100):
        buffer = LineBuffer()
        lines = [line for start in range(0, len(text), size) for line in buffer.feed(text[start : start + size])]
        assert lines == [b"one", b"", b"two \xff\r"]
        assert buffer.rest == b"three"


def test_a_line_without_an_end_is_refused() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * LONGEST_LINE_BYTES)
    with pytest.raises(ValueError, match="no end"):
        buffer.feed(b"x")
