"""The rules by which a run folder may be gone on with. All values are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.store.head import RunInfo, Source
from harness.store.resume import Choice, check_known, check_same, is_left, plan_differences
from harness.store.schema import CellRecord

Values = Callable[..., dict[str, Any]]

PLAN = {"models": ["toy"], "threads": [1, 2], "repeats": 3, "cool": None, "engine": {"chunk": 64}}
TOY = Source(name="toy", hash="a" * 64, folder="/models/toy")
BUNDLE = Source(name="runner", hash="b" * 64, folder="/bins/runner")
HEAD = RunInfo(
    run_id="r1", started="2026-01-01T00:00:00Z", command=("pytest",), harness_version="0.1", versions={}, host={},
    plan_name="mine", plan=PLAN, fleet=(), models={"toy": TOY}, bundle=BUNDLE,
)  # fmt: skip


@pytest.fixture
def record(values: Values) -> Callable[..., CellRecord]:
    """A record that is ok, or has the reason that is given."""

    def make(reason: Reason | None = None, **over: Any) -> CellRecord:
        if reason is not None:
            nothing = dict.fromkeys(("backend", "metrics", "thermal", "output", "raw"), "it never ran")
            over |= {"verdict": reason.verdict, "reason": reason.code, "fault": reason.fault, **dict.fromkeys(nothing)}
            over["nulls"] = {**values()["nulls"], **nothing}
        return CellRecord.model_validate(values(**over))

    return make


Make = Callable[..., CellRecord]


# --- what is left ---


def test_a_cell_without_a_record_is_left_to_resume_and_not_to_rerun() -> None:
    assert is_left(None, unfinished=True)
    assert not is_left(None, unfinished=False, chosen=Choice.parse(["verdict=failed"]))


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        (None, False),
        (Reason.ABI_MISMATCH, False),
        (Reason.BACKEND_FALLBACK, False),
        (Reason.CRASH, False),
        (Reason.NOISY, True),
        (Reason.DEVICE_LOST, True),
        (Reason.HARNESS_ERROR, True),
        (Reason.UNPARSED_OUTPUT, True),
        (Reason.BAD_PLAN, True),
        (Reason.OUT_OF_TIME, True),
    ],
)
def test_resume_does_again_whatever_has_no_final_record(record: Make, reason: Reason | None, left: bool) -> None:
    assert is_left(record(reason), unfinished=True) is left


def test_rerun_alone_does_what_it_picks_and_nothing_else(record: Make) -> None:
    chosen = Choice.parse(["reason=crash"])
    assert is_left(record(Reason.CRASH), unfinished=False, chosen=chosen)
    assert not is_left(record(Reason.DEVICE_LOST), unfinished=False, chosen=chosen)
    assert is_left(record(Reason.DEVICE_LOST), unfinished=True, chosen=chosen)


@pytest.mark.parametrize(
    ("words", "picked"),
    [
        (["reason=crash,noisy"], [Reason.CRASH, Reason.NOISY]),
        (["reason=crash", "reason=noisy"], [Reason.CRASH, Reason.NOISY]),
        (["verdict=ok"], [None]),
        ([" verdict = rejected, ok "], [None, Reason.NOISY, Reason.BACKEND_FALLBACK]),
        (["fault=infra", "reason=crash"], [Reason.CRASH, Reason.NOISY]),
    ],
)
def test_rerun_names_reasons_verdicts_and_faults(record: Make, words: list[str], picked: list[Reason | None]) -> None:
    chosen = Choice.parse(words)
    every = [None, Reason.CRASH, Reason.NOISY, Reason.BACKEND_FALLBACK]
    assert [reason for reason in every if chosen.picks(record(reason))] == picked


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("crash", r"--rerun crash: say which with reason=…, verdict=…, fault=…: e\.g\. --rerun reason=noisy,hot_start"),
        ("phone=a", "--rerun phone=a: say which with"),
        ("reason=", "--rerun reason=: it names no reason: known: backend_fallback, "),
        ("verdict=,", "it names no verdict: known: ok, rejected, failed, unsupported, skipped"),
        ("fault=me", "there is no fault 'me': known: product, infra, config, harness"),
        (
            "reason=noisy,crahs",
            "there is no reason 'crahs': did you mean crash\\? known: backend_fallback, .*phone_gone",
        ),
    ],
)
def test_a_rerun_that_cannot_be_read_lists_what_is_known(word: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Choice.parse([word])


# --- what may not change ---


def test_the_same_run_is_gone_on_with(record: Make) -> None:
    check_same(HEAD, [], PLAN, {"toy": TOY}, BUNDLE)


def test_a_plan_that_differs_is_refused_with_both_values() -> None:
    now = {**PLAN, "threads": [1], "engine": {"chunk": 128}, "cv_limit": 0.1}
    with pytest.raises(ConfigError) as caught:
        check_same(HEAD, [], now, {"toy": TOY}, BUNDLE)
    assert str(caught.value) == (
        "the plan differs from the run's: threads was [1, 2] and is [1]; engine.chunk was 64 and is 128; "
        "cv_limit was not there and is 0.1: leave out --plan and what overrides it, or begin a new run folder"
    )


def test_long_values_are_cut_in_the_message() -> None:
    [said] = plan_differences({"ask": "x" * 500}, {"ask": "y"})
    assert len(said) < 120
    assert said.endswith('… and is "y"')


def test_a_model_of_other_content_is_refused_with_both_hashes() -> None:
    other = Source(name="toy", hash="c" * 64, folder="/elsewhere/toy")
    with pytest.raises(ConfigError) as caught:
        check_same(HEAD, [], PLAN, {"toy": other}, BUNDLE)
    assert str(caught.value) == (
        "model toy is not what this run was begun with: its content was aaaaaaaaaaaa and is cccccccccccc "
        "(/elsewhere/toy): bring the old files back, or begin a new run folder"
    )


def test_a_bundle_of_other_content_is_refused_with_both_hashes() -> None:
    other = Source(name="runner", hash="d" * 64, folder="/bins/runner")
    with pytest.raises(
        ConfigError, match=r"bundle runner is not .* was bbbbbbbbbbbb and is dddddddddddd \(/bins/runner\)"
    ):
        check_same(HEAD, [], PLAN, {"toy": TOY}, other)


def test_the_same_model_under_another_name_is_the_same_model() -> None:
    moved = Source(name="copy", hash=TOY.hash, folder="/elsewhere/copy")
    check_same(HEAD, [], {**PLAN, "models": ["/elsewhere/copy"]}, {"/elsewhere/copy": moved}, BUNDLE)


def test_another_model_is_another_plan() -> None:
    other = Source(name="big", hash="c" * 64, folder="/models/big")
    with pytest.raises(ConfigError, match=r'models was \["toy"\] and is \["big"\]'):
        check_same(HEAD, [], {**PLAN, "models": ["big"]}, {"big": other}, BUNDLE)


def test_a_head_of_an_older_version_is_held_against_its_records(record: Make) -> None:
    old = HEAD.model_copy(update={"models": {}, "bundle": None})
    same = record(
        model={"name": "toy", "hash": TOY.hash, "weight_bytes": 7, "quant_bits": 4},
        bundle={**record().bundle.model_dump(), "hash": BUNDLE.hash},
    )
    check_same(old, [], PLAN, {"toy": TOY}, BUNDLE)
    check_same(old, [same], PLAN, {"toy": TOY}, BUNDLE)
    with pytest.raises(ConfigError, match="model toy is not what this run was begun with"):
        check_same(old, [same], PLAN, {"toy": TOY.model_copy(update={"hash": "c" * 64})}, BUNDLE)
    with pytest.raises(ConfigError, match="bundle runner is not what this run was begun with"):
        check_same(old, [same], PLAN, {"toy": TOY}, BUNDLE.model_copy(update={"hash": "c" * 64}))


def test_records_of_cells_that_this_version_does_not_know_stop_it_before_they_are_done_twice(record: Make) -> None:
    records = [record(cell_id="x"), record(cell_id="y")]
    check_known(HEAD, records, ["y", "x", "z"], "0.2")
    with pytest.raises(
        ConfigError, match=r"records of cells \(1\) that mnn-farm 0\.2 does not find .* begun by 0\.1: finish it"
    ):
        check_known(HEAD, records, ["y"], "0.2")
