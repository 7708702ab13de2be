from __future__ import annotations

import struct

import pytest

from harness.virtual.adbd import packets
from harness.virtual.adbd.packets import ProtocolError


def test_a_header_is_six_little_endian_words() -> None:
    header = packets.encode_header(packets.WRTE, 1, 2, b"abc")
    assert header == b"WRTE\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0" + bytes(255 - byte for byte in b"WRTE")


def test_old_peers_get_a_sum_of_all_bytes() -> None:
    header = packets.encode_header(packets.WRTE, 1, 2, b"\xff\xff\x01", checksum=True)
    assert struct.unpack("<6I", header)[4] == 0x1FF


def test_a_header_comes_back_as_it_was() -> None:
    header = packets.decode_header(packets.encode_header(packets.OPEN, 7, 0, b"shell:"))
    assert header == (packets.OPEN, 7, 0, 6)


@pytest.mark.parametrize(
    "words",
    [
        (packets.WRTE, 1, 2, 3, 0, 0),
        (0x12345678, 1, 2, 3, 0, 0x12345678 ^ 0xFFFFFFFF),
        (packets.WRTE, 1, 2, packets.MAX_PAYLOAD + 1, 0, packets.WRTE ^ 0xFFFFFFFF),
    ],
    ids=["wrong magic", "unknown command", "too long"],
)
def test_what_is_not_a_header_is_refused(words: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError):
        packets.decode_header(struct.pack("<6I", *words))
