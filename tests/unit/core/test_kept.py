"""Of a long output the begin and the end are kept."""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.kept import LEFT_OUT, Kept


def kept(most: int, *chunks: bytes) -> bytes:
    made = Kept(most)
    for chunk in chunks:
        made.add(chunk)
    return made.whole()


def test_what_fits_stays_as_it_is() -> None:
    assert kept(8, b"abc", b"", b"defgh") == b"abcdefgh"
    assert kept(sys.maxsize, b"x" * 1000, b"y") == b"x" * 1000 + b"y"


def test_of_what_is_longer_a_quarter_of_the_begin_and_the_rest_of_the_end_are_kept() -> None:
    assert kept(8, b"abc", b"defg", b"h", b"ij") == b"ab" + LEFT_OUT + b"efghij"
    assert kept(8, b"abcdefghij") == b"ab" + LEFT_OUT + b"efghij"


@settings(max_examples=100, deadline=None)
@given(st.integers(4, 60), st.lists(st.binary(max_size=30), max_size=20))
def test_it_never_grows_and_says_whether_something_is_missing(most: int, chunks: list[bytes]) -> None:
    text, whole = kept(most, *chunks), b"".join(chunks)
    if len(whole) <= most:
        assert text == whole
    else:
        assert len(text) == most + len(LEFT_OUT)
        assert text.startswith(whole[: most // 4])
        assert text.endswith(whole[most // 4 - most :])
