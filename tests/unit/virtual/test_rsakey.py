from __future__ import annotations

import base64
import random
import struct

import pytest

from harness.virtual.adbd.rsakey import PublicKey, parse_public_key, verifies

_INFO = bytes.fromhex("3021300906052b0e03021a05000414")


def _is_probably_prime(number: int) -> bool:
    return all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7, 11))


def _prime(rng: random.Random) -> int:
    while True:
        number = rng.getrandbits(1024) | (3 << 1022) | 1
        if number % 65537 != 1 and _is_probably_prime(number):
            return number


@pytest.fixture(scope="module")
def pair() -> tuple[PublicKey, int]:
    """A key of the test's own: public half and private exponent."""
    rng = random.Random(7)  # noqa: S311 - it protects nothing
    one, other = _prime(rng), _prime(rng)
    return PublicKey(one * other, 65537), pow(65537, -1, (one - 1) * (other - 1))


def _sign(pair: tuple[PublicKey, int], token: bytes) -> bytes:
    block = b"\0\1" + b"\xff" * (256 - 3 - 35) + b"\0" + _INFO + token
    return pow(int.from_bytes(block, "big"), pair[1], pair[0].modulus).to_bytes(256, "big")


def test_a_signature_over_the_token_verifies_and_no_other(pair: tuple[PublicKey, int]) -> None:
    token = bytes(range(20))
    signature = _sign(pair, token)
    assert verifies(pair[0], token, signature)
    assert not verifies(pair[0], bytes(20), signature)
    assert not verifies(pair[0], token, signature[:-1])
    assert not verifies(pair[0], token, bytes([signature[0] ^ 1]) + signature[1:])
    assert not verifies(pair[0], token, b"\xff" * 256)


def test_a_public_key_is_read_in_androids_layout(pair: tuple[PublicKey, int]) -> None:
    data = struct.pack("<II256s256sI", 64, 0, pair[0].modulus.to_bytes(256, "little"), bytes(256), 65537)
    assert parse_public_key(base64.b64encode(data).decode() + " me@here") == pair[0]


@pytest.mark.parametrize("text", ["", "!!!", "AAAA", base64.b64encode(bytes(524)).decode()])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"key of"):
        parse_public_key(text)
