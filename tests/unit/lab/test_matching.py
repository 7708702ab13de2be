from __future__ import annotations

from collections.abc import Callable

from harness.lab.matching import Deal, Make, Wanted, deal, make_of
from harness.store.head import FleetMember

TOY, OTHER = Make("Toy 3", "TS900"), Make("Toy 3", "TX1")
MAKES = {"a": TOY, "b": TOY, "c": TOY, "o": OTHER, "x": None, "y": None}


def cell(phone: str, number: int = 0, on: str = "abcoxy") -> Wanted:
    return Wanted(f"{phone}{number}", phone, number, {other: f"{other}{number}" for other in on})


def test_a_phone_that_is_here_does_its_own_cells_in_the_plans_order() -> None:
    cells = [cell("a", 0), cell("b", 0), cell("a", 1)]
    assert deal(cells, MAKES, ["a", "b"], "phone") == (
        (Deal("a", None, (cells[0], cells[2])), Deal("b", None, (cells[1],))),
        (),
    )


def test_cells_of_a_phone_that_is_away_stay_where_the_plan_does_not_allow_more() -> None:
    assert deal([cell("a"), cell("b")], MAKES, ["b"], "phone") == ((Deal("b", None, (cell("b"),)),), (cell("a"),))


def test_they_go_to_phones_of_the_same_make_where_it_does_the_least_busy_first() -> None:
    gone = [cell("a", number) for number in range(3)]
    dealt, stay = deal(gone, MAKES, ["b", "c", "o"], "model", busy={"b": 2})
    assert dealt == (Deal("c", "a", (gone[0], gone[1])), Deal("b", "a", (gone[2],)))
    assert stay == ()


def test_another_chip_under_the_same_name_is_another_make() -> None:
    assert deal([cell("a")], MAKES, ["o"], "model") == ((), (cell("a"),))


def test_phones_that_do_not_say_what_they_are_are_like_no_other() -> None:
    assert deal([cell("x")], MAKES, ["y"], "model") == ((), (cell("x"),))


def test_a_phone_that_would_get_other_binaries_or_cores_does_no_cells_of_others() -> None:
    only_here = cell("a", on="a")
    assert deal([only_here], MAKES, ["b"], "model") == ((), (only_here,))


def test_a_make_needs_model_and_chip(member: Callable[..., FleetMember]) -> None:
    assert make_of(member("a")) == TOY
    assert make_of(member("a", model=None)) is None
    assert make_of(member("a", soc=None)) is None
