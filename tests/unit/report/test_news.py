from __future__ import annotations

from datetime import date
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Fault, Reason
from harness.plan.known import Known
from harness.report.news import News, news_of
from harness.store.schema import CellRecord

TODAY = date(2026, 3, 5)


def known(**over: Any) -> Known:
    return Known.model_validate({"ticket": "T-1", "expires": TODAY, "note": "it crashes", "reason": "crash", **over})


def timed(make: ModuleType, *speeds: float, **over: Any) -> CellRecord:
    sample = {"kind": "timed", "ttft_ms": 9.0, "prefill_ms": 8.0, "prompt_tokens": 64, "generated_tokens": 32}
    return make.record(samples=[{**sample, "decode_tps": tps, "finish": "length"} for tps in speeds], **over)


def told(news: News) -> list[tuple[str, str, str, bool]]:
    return [(item.state, item.reason, item.words, item.red) for item in news.items]


def one(now: CellRecord | None, before: CellRecord | None) -> tuple[str, str, str, bool] | None:
    """The news of one cell."""
    items = told(news_of([now] if now else [], [before] if before else [], (), TODAY))
    return items[0] if items else None


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        (None, None, None),
        (Reason.CRASH, None, ("fixed", "", "was crash", False)),
        (Reason.BACKEND_NOT_BUILT, None, ("fixed", "", "was backend_not_built", False)),
        (Reason.OUT_OF_TIME, None, None),
        (None, Reason.CRASH, ("new", "crash", "was ok", True)),
        (Reason.CRASH, Reason.CRASH, ("still", "crash", "as before", True)),
        (Reason.HANG, Reason.CRASH, ("new", "crash", "was hang", True)),
        (Reason.OUT_OF_TIME, Reason.CRASH, ("new", "crash", "was out_of_time", True)),
        (None, Reason.DEVICE_LOST, ("new", "device_lost", "was ok", True)),
        (None, Reason.BACKEND_NOT_BUILT, ("new", "backend_not_built", "was ok, is unsupported now", True)),
        (Reason.BACKEND_NOT_BUILT, Reason.BACKEND_NOT_BUILT, None),
        (Reason.CRASH, Reason.BACKEND_NOT_BUILT, None),
        (None, Reason.LOW_BATTERY, ("new", "low_battery", "was ok, was not run now", False)),
        (Reason.LOW_BATTERY, Reason.LOW_BATTERY, None),
    ],
)
def test_two_records_of_a_cell_make_one_piece_of_news_or_none(
    make: ModuleType, before: Reason | None, now: Reason | None, news: tuple[str, str, str, bool] | None
) -> None:
    assert one(make.record(reason=now), make.record(reason=before)) == news


def test_a_cell_that_was_not_there_is_news_only_if_it_fails(make: ModuleType) -> None:
    assert one(make.record(reason=Reason.CRASH), None) == ("new", "crash", "was not in that run", True)
    assert one(make.record(reason=Reason.BACKEND_NOT_BUILT), None) is None
    assert one(make.record(), None) is None


def test_without_a_run_to_compare_with_failures_are_all_there_is_to_tell(make: ModuleType) -> None:
    cells = [make.record(), make.record(threads=2, reason=Reason.CRASH), make.record(threads=4, reason=Reason.BUSY)]
    news = news_of(cells, None, (), TODAY)
    assert told(news) == [("new", "crash", "", True)]
    assert not news.compared


def test_a_cell_that_got_slower_is_red_and_the_products_fault(make: ModuleType) -> None:
    before, now = timed(make, 60, 61, 59), timed(make, 30, 30.5, 29.5)
    [item] = news_of([now], [before], (), TODAY).items
    assert (item.state, item.reason, item.fault, item.red) == ("new", "slower", Fault.PRODUCT, True)
    assert item.words.startswith("decode 30.0 tok/s, was 60.0 (-50%")


def test_the_speed_of_a_phone_that_shares_its_computer_is_not_judged(make: ModuleType) -> None:
    before, now = timed(make, 60, 61, 59), timed(make, 3, 3.1, 2.9)
    assert news_of([now], [before], (), TODAY, shared={now.phone.id}).items == ()


def test_red_by_comparison_is_told_apart_from_red_by_itself(make: ModuleType) -> None:
    slow = timed(make, 30, 30.5, 29.5)
    lost = make.record(backend="opencl", reason=Reason.BACKEND_NOT_BUILT)
    crashed = make.record(threads=2, reason=Reason.CRASH)
    before = [timed(make, 60, 61, 59), make.record(backend="opencl"), make.record(threads=2)]
    news = news_of([slow, lost, crashed], before, (), TODAY)
    assert news.regressed == {slow.cell_id, lost.cell_id}


def test_what_has_no_record_now_is_gone_and_says_whether_its_phone_is(make: ModuleType) -> None:
    here = [make.record(), make.record(threads=2)]
    away = make.record("birch")
    items = news_of(here[:1], [*here, away], (), TODAY).items
    assert [(item.state, item.before, item.record, item.words) for item in items] == [
        ("gone", here[1], None, "not in this run's plan"),
        ("gone", away, None, "its phone is not in this run"),
    ]


def test_what_is_still_to_come_is_not_gone(make: ModuleType) -> None:
    away = make.record("birch")
    assert news_of([], [away], (), TODAY, planned={away.cell_id}).items == ()


def test_another_build_is_the_same_cell_by_phone_model_and_configuration(make: ModuleType) -> None:
    before = make.record(cell_id="old", bundle={**make.record().bundle.model_dump(), "hash": "c" * 64})
    assert one(make.record(reason=Reason.CRASH), before) == (
        "new",
        "crash",
        "was ok, with another device binaries than then",
        True,
    )
    assert one(make.record("birch", reason=Reason.CRASH), before) == ("new", "crash", "was not in that run", True)


def test_another_android_build_is_said(make: ModuleType) -> None:
    now = make.record(reason=Reason.CRASH, phone=make.phone("atlas", fingerprint="maker/atlas/2"))
    found = one(now, make.record())
    assert found is not None
    assert found[2] == "was ok, with another Android build than then"


@pytest.mark.parametrize("before", [None, Reason.CRASH])
def test_a_known_issue_stays_red_and_has_its_ticket(make: ModuleType, before: Reason | None) -> None:
    [item] = news_of([make.record(reason=Reason.CRASH)], [make.record(reason=before)], [known()], TODAY).items
    assert (item.state, item.ticket, item.red) == ("known", "T-1", True)
    assert item.words == f"it crashes; {'as before' if before else 'was ok'}"


def test_an_expired_one_is_new_again_and_named_even_where_it_failed_before(make: ModuleType) -> None:
    crashed, over = make.record(reason=Reason.CRASH), known(expires=date(2026, 3, 4))
    news = news_of([crashed], [crashed], [over], TODAY)
    assert told(news) == [("new", "crash", "T-1 expired on 2026-03-04; as before", True)]
    assert (news.expired, news.stale) == ((over,), ())


def test_a_valid_entry_wins_over_an_expired_one(make: ModuleType) -> None:
    old, valid = known(expires=date(2026, 3, 4)), known(ticket="T-2")
    news = news_of([make.record(reason=Reason.CRASH)], None, [old, valid], TODAY)
    assert [(item.state, item.ticket) for item in news.items] == [("known", "T-2")]
    assert news.expired == ()


def test_an_entry_that_nothing_matches_is_stale(make: ModuleType) -> None:
    other = known(reason="hang")
    assert news_of([make.record(reason=Reason.CRASH)], None, [known(), other], TODAY).stale == (other,)


def test_a_slowdown_can_be_known_by_its_words(make: ModuleType) -> None:
    entry = known(reason="slower", detail="decode 30.0 tok/s*")
    [item] = news_of([timed(make, 30, 30.5, 29.5)], [timed(make, 60, 61, 59)], [entry], TODAY).items
    assert (item.state, item.ticket) == ("known", "T-1")
