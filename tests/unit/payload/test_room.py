from __future__ import annotations

import pytest

from harness.payload.room import CAP_BYTES, Held, cap_bytes, parse_listing, superfluous

GIB = 1024**3
OLD, NEW = "a" * 32, "b" * 32


def test_the_store_is_read_from_what_stat_and_du_print() -> None:
    said = f"1700000000 12\tmodels/{OLD}\n1700000009 4\tbundles/{NEW}\n 7\tmodels/odd\n88\tbin\ndu: no\n\n".encode()
    assert parse_listing(said) == (
        Held(f"models/{OLD}", 12 * 1024, 1700000000),
        Held(f"bundles/{NEW}", 4 * 1024, 1700000009),
        Held("models/odd", 7 * 1024, None),
        Held("bin", 88 * 1024, None),
    )


@pytest.mark.parametrize(
    ("held", "free", "cap"), [(0, None, CAP_BYTES), (0, 500 * GIB, CAP_BYTES), (6 * GIB, 4 * GIB, 5 * GIB), (0, 0, 0)]
)
def test_the_cap_is_fixed_or_half_of_what_would_be_free(held: int, free: int | None, cap: int) -> None:
    assert cap_bytes(held, free) == cap


STORE = (
    Held(f"models/{NEW}", 10 * GIB, 9),
    Held(f"models/{OLD}", 10 * GIB, 5),
    Held(f"bundles/{OLD}", 1 * GIB, 7),
    Held("bin", 1 * GIB, None),
)


@pytest.mark.parametrize(
    ("wanted_gib", "in_use", "gone"),
    [
        (10, (), ()),
        (11, (), (1,)),
        (21, (), (1, 2)),
        (99, (), (1, 2, 0)),
        (11, (OLD + "0" * 32,), (0,)),
        (99, (OLD + "0" * 32, NEW + "0" * 32), ()),
    ],
)
def test_the_longest_unused_goes_as_far_as_needed(wanted_gib: int, in_use: tuple[str, ...], gone: tuple[int]) -> None:
    assert superfluous(STORE, wanted_gib * GIB, None, in_use) == tuple(STORE[number] for number in gone)


def test_what_is_no_payload_of_ours_or_of_unknown_use_stays() -> None:
    strange = (
        Held("models/../../x", CAP_BYTES, 1),
        Held("models/notes", CAP_BYTES, 1),
        Held(f"work/{OLD}", CAP_BYTES, 1),
        Held(f"models/{OLD}", CAP_BYTES, None),
    )
    assert superfluous(strange, GIB, None, ()) == ()
