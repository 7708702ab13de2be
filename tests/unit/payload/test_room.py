from __future__ import annotations

import pytest

from harness.payload.room import (
    CAP_BYTES,
    MARGIN_BYTES,
    STALE_S,
    Held,
    cap_bytes,
    parse_listing,
    parse_now,
    stale,
    superfluous,
)

GIB = 1024**3
OLD, NEW = "a" * 32, "b" * 32


def test_the_store_is_read_from_what_stat_and_du_print() -> None:
    said = f"""now=1700000100
used=1700000000 models/{OLD}
used=1700000009 bundles/{NEW}
used=1700000000 models/{OLD}.stamp
du: no

12\tmodels/{OLD}
4\tmodels/{OLD}.stamp
4\tbundles/{NEW}
 7 models/odd
88\tbin
""".encode()
    assert parse_listing(said) == (
        Held(f"models/{OLD}", 12 * 1024, 1700000000),
        Held(f"models/{OLD}.stamp", 4 * 1024, 1700000000),
        Held(f"bundles/{NEW}", 4 * 1024, 1700000009),
        Held("models/odd", 7 * 1024, None),
        Held("bin", 88 * 1024, None),
    )
    assert parse_now(said) == 1700000100


@pytest.mark.parametrize("said", [b"", b"now=\n", b"now=x\n", b"xnow=5\n"])
def test_a_phone_may_not_tell_the_time(said: bytes) -> None:
    assert parse_now(said) is None


def test_what_broken_pushes_left_goes_after_a_day_but_not_what_is_gone_on_with() -> None:
    now = 2_000_000
    old, older = now - STALE_S - 1, now - 9 * STALE_S
    held = (
        Held(f"incoming/{NEW}", GIB, older),
        Held(f"incoming/{OLD}", GIB, old),
        Held("incoming/0123456789ab-01234567", GIB, old),
        Held(f"incoming/{'c' * 32}", GIB, now - STALE_S),
        Held(f"incoming/{'d' * 32}", GIB, None),
        Held("incoming/notes", GIB, older),
        Held(f"models/{OLD}", GIB, older),
    )
    assert stale(held, now, coming=NEW) == held[1:3]
    assert stale(held, None, coming=NEW) == ()


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


def test_more_goes_where_what_is_wanted_would_not_fit_otherwise() -> None:
    mib = 1024**2
    held = (Held(f"models/{NEW}", 8 * mib, 9), Held(f"models/{OLD}", 8 * mib, 5))
    assert superfluous(held, 5 * mib, MARGIN_BYTES + 5 * mib, ()) == ()
    assert superfluous(held, 5 * mib, MARGIN_BYTES, ()) == held[1:]
    assert superfluous(held, 5 * mib, MARGIN_BYTES, (OLD,)) == held[:1]


def test_what_is_no_payload_of_ours_or_of_unknown_use_stays() -> None:
    strange = (
        Held("models/../../x", CAP_BYTES, 1),
        Held("models/notes", CAP_BYTES, 1),
        Held(f"work/{OLD}", CAP_BYTES, 1),
        Held(f"models/{OLD}", CAP_BYTES, None),
    )
    assert superfluous(strange, GIB, None, ()) == ()
