from __future__ import annotations

import math

import pytest

from harness.bench.match import NEAR_TIE, Comparison, Expected, compare, compare_text, difference

WANTED = Expected(token_ids=tuple(range(10, 22)), text="one two three", finish="length")


def with_rival(place: int, token: int, gap: float) -> Expected:
    margins = tuple(((token, gap), (7, 9.0)) if n == place else ((7, 9.0),) for n in range(12))
    return WANTED.model_copy(update={"margins": margins})


def said(**other: int) -> tuple[int, ...]:
    """The reference's tokens, with others at some places: ``t3=99``."""
    changed = {int(name[1:]): token for name, token in other.items()}
    return tuple(changed.get(n, token) for n, token in enumerate(WANTED.token_ids))


@pytest.mark.parametrize(
    ("tokens", "policy", "found"),
    [
        (said(), "exact", Comparison(12, held=True)),
        (said(t11=99), "exact", Comparison(11, held=False)),
        (said()[:-1], "exact", Comparison(11, held=False)),
        ((*said(), 5), "exact", Comparison(12, held=False)),
        (said(t8=99), "prefix", Comparison(8, held=True)),
        (said(t7=99), "prefix", Comparison(7, held=False)),
        (said()[:7], "prefix", Comparison(7, held=False)),
        (said()[:8], "prefix", Comparison(8, held=True)),
        (said(t1=99), "first", Comparison(1, held=True)),
        (said(t0=99), "first", Comparison(0, held=False)),
        ((), "first", Comparison(0, held=False)),
        (said(t0=99), "off", Comparison(0, held=True)),
    ],
)
def test_a_policy_says_how_much_has_to_be_the_same(tokens: tuple[int, ...], policy: str, found: Comparison) -> None:
    assert compare(tokens, WANTED, policy, 8) == found  # type: ignore[arg-type]
    assert found.differs is not found.held


def test_of_a_text_shorter_than_the_prefix_all_has_to_be_the_same() -> None:
    short = Expected(token_ids=(4, 5, 2), text="Paris.", finish="eos")
    assert compare((4, 5, 2), short, "prefix", 8) == Comparison(3, held=True)
    assert compare((4, 5, 6, 7), short, "prefix", 8) == Comparison(2, held=False)


@pytest.mark.parametrize(
    ("token", "gap", "tie"),
    [(99, 0.0, True), (99, 0.6931, True), (99, 0.6932, False), (98, 0.1, False)],
)
def test_a_token_at_least_half_as_likely_as_the_references_own_is_a_tie(token: int, gap: float, tie: bool) -> None:
    assert math.exp(-NEAR_TIE) == pytest.approx(0.5)
    found = compare(said(t2=99), with_rival(2, token, gap), "prefix", 8)
    assert (found.common, found.held, found.tie, found.differs) == (2, False, tie, not tie)


def test_exact_forgives_no_tie_and_first_does() -> None:
    wanted = with_rival(0, 99, 0.01)
    assert compare(said(t0=99), wanted, "first", 8).tie
    assert compare(said(t0=99), wanted, "exact", 8).differs


def test_a_text_that_ends_too_early_is_no_tie() -> None:
    assert compare(said()[:2], with_rival(2, 99, 0.01), "prefix", 8).differs


def test_a_difference_names_the_token_and_both_texts() -> None:
    other = Expected(token_ids=(10, 99), text="one zwei", finish="eos")
    assert difference(1, other, WANTED) == (
        "token 2 is 99 instead of 11; it says 'one zwei', the reference 'one two three'"
    )
    assert difference(2, other, WANTED).startswith("token 3 is missing instead of 12")


PIECES = {4: b"Paris", 5: b".", 6: b" It", 7: b" It is", 8: b" \xc3", 9: b"\xa9"}
TEXT = Expected(
    token_ids=(4, 5, 6, 2),
    text="Paris. It",
    finish="eos",
    pieces={token: piece.hex() for token, piece in PIECES.items()},
)


@pytest.mark.parametrize(
    ("text", "policy", "found"),
    [
        ("Paris. It", "exact", Comparison(4, held=True)),
        ("Paris. It is", "exact", Comparison(3, held=False)),
        ("Paris. It is", "prefix", Comparison(3, held=False)),
        ("Paris. He", "prefix", Comparison(2, held=False)),
        ("Paris", "prefix", Comparison(1, held=False)),
        ("Paris!", "first", Comparison(1, held=True)),
        ("Rome", "first", Comparison(0, held=False)),
        ("Rome", "off", Comparison(0, held=True)),
    ],
)
def test_a_text_without_ids_is_compared_by_the_references_pieces(text: str, policy: str, found: Comparison) -> None:
    assert compare_text(text, TEXT, policy, 8) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "token", "gap", "tie"),
    [(2, 7, 0.1, True), (2, 7, 0.9, False), (3, 7, 0.1, False), (2, 9, 0.1, False), (0, 7, 0.1, False)],
)
def test_a_longer_token_that_begins_like_the_wanted_one_may_be_a_tie(
    place: int, token: int, gap: float, tie: bool
) -> None:
    margins = tuple(((token, gap),) if n == place else () for n in range(4))
    found = compare_text("Paris. It is", TEXT.model_copy(update={"margins": margins}), "prefix", 8)
    assert (found.common, found.held, found.tie) == (3, False, tie)


def test_half_a_character_is_compared_by_its_bytes() -> None:
    expected = TEXT.model_copy(update={"token_ids": (4, 8, 9), "text": "Paris \u00e9", "finish": "length"})
    assert compare_text("Paris \u00e9t\u00e9", expected, "prefix", 8) == Comparison(3, held=True)
