"""The scan: every line that holds a needle, with its number, in any encoding and with any line ends."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.triage.scan import BLOCK, Scanner, blocks

NEEDLES = ("needle", "Fatal signal", "乱码", "tok/s")


def lines_of(data: bytes) -> list[tuple[int, bytes, list[str]]]:
    found = Scanner(NEEDLES).scan(io.BytesIO(data))
    return [(one.number, one.raw, sorted(NEEDLES[index] for index in one.needles)) for one in found]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_are_found_with_their_numbers_whatever_their_ends(end: bytes) -> None:
    data = end.join([b"first", b"a needle", b"", b"12 tok/s needle", b"last needle"])
    assert lines_of(data) == [
        (2, b"a needle", ["needle"]),
        (4, b"12 tok/s needle", ["needle", "tok/s"]),
        (5, b"last needle", ["needle"]),
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_encodings_that_windows_writes_are_read(encoding: str) -> None:
    """Without a mark UTF-16 is read as far as it is ASCII: that is what matters."""
    assert lines_of("x\r\na needle\r\n".encode(encoding)) == [(2, b"a needle", ["needle"])]


def test_nuls_and_broken_utf8_do_no_harm() -> None:
    assert lines_of(b"\0\0\xff\xfene\0edle \xc3\n\x80needle") == [
        (1, b"\xff\xfeneedle \xc3", ["needle"]),
        (2, b"\x80needle", ["needle"]),
    ]


def test_needles_across_the_ends_of_blocks_are_found() -> None:
    filler = b"x" * 99 + b"\n"
    count = BLOCK // 100
    for more in range(12):
        data = filler * count + b"y" * (BLOCK - 100 * count - more) + b"needle\n" + filler
        assert [number for number, _, _ in lines_of(data)] == [count + 1]


def test_a_line_without_an_end_is_read_in_pieces() -> None:
    data = b"z" * (3 * BLOCK) + b"needle\nneedle"
    assert [number for number, _, _ in lines_of(data)] == [1, 2]


def test_a_line_end_that_is_cut_in_two_is_one() -> None:
    class Drips(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(1)

    assert b"".join(blocks(Drips(b"a\r\nb\r\n\rc"))) == b"a\nb\n\nc"


@given(
    st.lists(st.sampled_from(["needle", "need", "le", "x", " Fatal signal", "\n", "乱", "码", "tok/s"]), max_size=60)
)
@settings(max_examples=150, deadline=None)
def test_it_finds_what_a_plain_search_finds(parts: list[str]) -> None:
    data = "".join(parts).encode()
    plain = [
        (number, line, sorted(needle for needle in NEEDLES if needle.encode() in line))
        for number, line in enumerate(data.split(b"\n"), 1)
        if any(needle.encode() in line for needle in NEEDLES)
    ]
    assert lines_of(data) == plain


def test_memory_does_not_grow_with_the_size_of_the_log() -> None:
    class Endless(io.RawIOBase):
        """Five megabytes that lie nowhere."""

        left = 5 << 20

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.left)
            self.left -= size
            return (b"05-05 10:00:00.000  100  101 I tag: nothing to see, a needle now and then\n" * (size // 70 + 1))[
                :size
            ]

    tracemalloc.start()
    count = sum(1 for _ in Scanner(NEEDLES).scan(Endless()))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 60_000
    assert peak < 40 << 20


def test_a_needle_of_three_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than 4 bytes"):
        Scanner(["abc"])
