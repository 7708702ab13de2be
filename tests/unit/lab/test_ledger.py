from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.lab.ledger import ALREADY, Ledger
from harness.store.schema import CellRecord

Make = Callable[..., CellRecord]


def test_a_record_of_the_one_who_has_the_cell_may_be_kept_once(record: Make) -> None:
    ledger, found = Ledger(), record("c1", "a")
    ledger.give("order-1", ["c1"])
    assert ledger.why_not("order-1", "c1", found) == ""
    ledger.keep(found)
    assert ledger.why_not("order-1", "c1", found) == ALREADY
    assert ledger.is_final("c1")


def test_a_host_that_comes_back_after_its_cell_was_given_away_adds_nothing(record: Make) -> None:
    ledger = Ledger()
    ledger.give("order-1", ["c1", "c2"])
    assert ledger.take_back("order-1") == ("c1", "c2")
    ledger.give("order-2", ["c1"])
    late = record("c1", "a")
    assert ledger.why_not("order-1", "c1", late) == "its cell was given to another phone meanwhile"
    ledger.keep(record("c1", "b", started=9))
    assert ledger.why_not("order-1", "c1", late) == "its cell is done"


def test_what_a_lost_host_still_sends_of_a_cell_that_nobody_else_has_counts(record: Make) -> None:
    ledger = Ledger()
    ledger.give("order-1", ["c1"])
    ledger.take_back("order-1")
    assert ledger.why_not("order-1", "c1", record("c1", "a")) == ""


def test_what_is_done_or_somebodys_is_given_to_nobody(record: Make) -> None:
    ledger = Ledger([record("c1", "a")])
    with pytest.raises(ValueError, match="c1 cannot be given to order-2"):
        ledger.give("order-2", ["c1"])
    ledger.give("order-2", ["c2"])
    with pytest.raises(ValueError, match="c2 cannot be given to order-3"):
        ledger.give("order-3", ["c2"])


def test_attempts_that_are_not_final_are_numbered_and_leave_the_cell_open(record: Make) -> None:
    ledger = Ledger([record("c1", "a", final=False)])
    assert (ledger.number("c1"), ledger.number("c2"), ledger.is_final("c1")) == (2, 1, False)
    ledger.give("order-2", ["c1"])
    assert ledger.why_not("order-2", "c1", record("c1", "a", started=5)) == ""


def test_a_host_that_ends_early_gives_back_only_what_has_no_record(record: Make) -> None:
    ledger = Ledger()
    ledger.give("order-1", ["c1", "c2"])
    ledger.keep(record("c1", "a", final=False))
    assert ledger.take_back("order-1") == ("c2",)
