"""RSA as adb uses it to know a computer: public keys in Android's layout, signatures over a token.

Layout: AOSP ``libcrypto_utils/android_pubkey.cpp``. The signature is PKCS #1 v1.5 with the DigestInfo of SHA-1, where
the 20 bytes of the token stand in the digest's place (AOSP ``adb/client/auth.cpp``).
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

TOKEN_BYTES = 20
_WORDS = 64
_MODULUS_BYTES = 4 * _WORDS
_LAYOUT = struct.Struct(f"<II{_MODULUS_BYTES}s{_MODULUS_BYTES}sI")
_SHA1_INFO = bytes.fromhex("3021300906052b0e03021a05000414")


@dataclass(frozen=True)
class PublicKey:
    """A key of 2048 bits."""

    modulus: int
    exponent: int


def parse_public_key(text: str) -> PublicKey:
    """Read the base64 word of ``adbkey.pub``; a comment after it is ignored.

    Raises:
        ValueError: it is not such a key.
    """
    words = text.split()
    try:
        data = base64.b64decode(words[0] if words else "", validate=True)
        size, _n0inv, modulus, _rr, exponent = _LAYOUT.unpack(data)
    except (binascii.Error, struct.error) as error:
        raise ValueError("not a public key of adb") from error
    if size != _WORDS or exponent not in (3, 65537):
        raise ValueError(f"a key of {size} words with exponent {exponent}; adb's have {_WORDS} and 65537")
    return PublicKey(int.from_bytes(modulus, "little"), exponent)


def verifies(key: PublicKey, token: bytes, signature: bytes) -> bool:
    """Whether ``signature`` over ``token`` was made with the private half of ``key``."""
    if len(signature) != _MODULUS_BYTES or len(token) != TOKEN_BYTES:
        return False
    number = int.from_bytes(signature, "big")
    if number >= key.modulus:
        return False
    opened = pow(number, key.exponent, key.modulus).to_bytes(_MODULUS_BYTES, "big")
    tail = b"\0" + _SHA1_INFO + token
    return opened == b"\0\1".ljust(_MODULUS_BYTES - len(tail), b"\xff") + tail
