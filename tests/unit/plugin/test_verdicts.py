from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.reasons import Outcome, Reason
from harness.plan.model import Plan
from harness.plugin import judge
from harness.plugin.verdicts import (
    CellFailure,
    exit_status,
    long_message,
    outcome_of,
    promised,
    regression_failure,
    slo_failure,
    tell_outcome,
)
from harness.report.slo import Missed
from harness.store.schema import Finding


def record(reason: Reason | None) -> Any:
    return SimpleNamespace(why=reason)


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        ([], 0),
        ([None], 0),
        ([None, Reason.BACKEND_MISSING_ON_PHONE], 0),
        ([Reason.DEVICE_LOST, None], 10),
        ([Reason.NOISY], 10),
        ([Reason.DEVICE_LOST, Reason.BACKEND_FALLBACK], 1),
        ([Reason.HARNESS_ERROR], 1),
        ([Reason.MODEL_INCOMPLETE, Reason.DEVICE_LOST], 1),
        ([Reason.OUT_OF_TIME], 0),
    ],
)
def test_exit_status_says_whose_fault_a_red_run_is(reasons: list[Reason | None], status: int) -> None:
    red = any(reason is not None and reason.outcome is not Outcome.SKIPPED for reason in reasons)
    assert exit_status([record(reason) for reason in reasons], 1 if red else 0) == status


@pytest.mark.parametrize("pytests_own", [2, 3, 4, 5])
def test_pytests_own_status_stays(pytests_own: int) -> None:
    assert exit_status([record(Reason.DEVICE_LOST)], pytests_own) == pytests_own


@pytest.mark.parametrize(("recorded", "status"), [(None, 10), (Reason.CRASH, 1), (Reason.DEVICE_LOST, 10)])
def test_what_could_not_be_recorded_counts_beside_what_was(recorded: Reason | None, status: int) -> None:
    assert exit_status([record(recorded)], 1, beside=[Reason.HOST_DISK_FULL]) == status


def test_a_failure_that_has_no_record_stays_a_failure() -> None:
    assert exit_status([record(None)], 1) == 1


@pytest.mark.parametrize(("recorded", "status"), [(None, 1), (Reason.BACKEND_NOT_BUILT, 1), (Reason.NOISY, 1)])
def test_a_cell_that_is_red_by_comparison_makes_the_run_fail(recorded: Reason | None, status: int) -> None:
    assert exit_status([record(recorded)], 0, regressed=True) == status
    assert exit_status([record(recorded)], 2, regressed=True) == 2


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        ("slower", "slower (product) on toy: decode 3, was 9"),
        ("abi_mismatch", "abi_mismatch (product) on toy: decode 3, was 9; no such binaries"),
    ],
)
def test_a_regression_says_what_was_and_what_to_do(reason: str, first: str) -> None:
    phone = SimpleNamespace(name="toy", model="T1", serial="S1")
    now: Any = SimpleNamespace(phone=phone, detail="no such binaries", raw="raw/1/")
    failure = regression_failure(now, reason, "decode 3, was 9")
    lines = failure.text.splitlines()
    assert failure.short == lines[0] == first
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["what", "whose", "phone", "do", "raw"]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (None, Outcome.PASSED),
        (Reason.BACKEND_NOT_BUILT, Outcome.SKIPPED),
        (Reason.PHONE_GONE, Outcome.SKIPPED),
        (Reason.CRASH, Outcome.FAILED),
        (Reason.REBOOTED, Outcome.FAILED),
        (Reason.BAD_PLAN, Outcome.ERROR),
        (Reason.UNPARSED_OUTPUT, Outcome.ERROR),
    ],
)
def test_the_outcome_follows_verdict_and_fault(reason: Reason | None, outcome: Outcome) -> None:
    assert outcome_of(record(reason)) is outcome


def test_a_failure_tells_its_evidence_and_the_warnings_but_no_mere_notes() -> None:
    findings = (
        Finding(code="crash", severity="error", title="signal 11", evidence="SIGSEGV\nat 0"),
        Finding(code="foreground_app", severity="info", title="in front: com.example.home", evidence="x"),
        Finding(code="recovered", severity="warning", title="was lost and came back"),
    )
    phone = SimpleNamespace(name="toy", model=None, serial="S1")
    failed: Any = SimpleNamespace(
        why=Reason.CRASH,
        reason="crash",
        fault=Reason.CRASH.fault,
        detail="signal 11",
        phone=phone,
        raw=None,
        findings=findings,
    )
    lines = long_message(failed).splitlines()
    assert lines[0] == "crash (product) on toy: signal 11"
    assert lines[4:7] == [
        "  evidence: SIGSEGV",
        "            at 0",
        "  besides:  warning recovered: was lost and came back",
    ]
    assert "in front" not in "\n".join(lines)


def test_a_cause_that_the_logs_show_is_told_with_its_own_advice() -> None:
    findings = (
        Finding(code="link_error", severity="error", title="no library"),
        Finding(
            code="missing", severity="info", title="A library is missing", cause="Nobody\npushed it.", advice="Push"
        ),
    )
    phone = SimpleNamespace(name="toy", model=None, serial="S1")
    why = Reason.LINK_ERROR
    failed: Any = SimpleNamespace(
        why=why, reason=why.code, fault=why.fault, detail="no library", phone=phone, raw=None, findings=findings
    )
    assert long_message(failed).splitlines()[-3:] == [
        "  found:    A library is missing",
        "  why:      Nobody pushed it.",
        "  do:       Push",
    ]


@pytest.mark.parametrize(
    ("why", "raw", "told"),
    [
        (Reason.CRASH, "raw/0123456789ab/1/", ["  bundle:   mnn-farm crash RUN 0123456789ab --redact"]),
        (Reason.DEVICE_LOST, "raw/0123456789ab/1/", []),
        (Reason.CRASH, None, []),
    ],
)
def test_a_failure_of_the_product_that_ran_names_what_packs_a_bug_report(
    why: Reason, raw: str | None, told: list[str]
) -> None:
    phone = SimpleNamespace(name="toy", model=None, serial="S1")
    failed: Any = SimpleNamespace(
        why=why,
        reason=why.code,
        fault=why.fault,
        detail="x",
        phone=phone,
        raw=raw,
        findings=(),
        cell_id="0123456789abcdef",
    )
    assert [line for line in long_message(failed).splitlines() if "mnn-farm crash" in line] == told
    report: Any = SimpleNamespace()
    tell_outcome(report, failed, (), Path("my runs/1"))
    lines = [line.replace(" RUN ", " 'my runs/1' ") for line in told]
    assert [line for line in report.longrepr.splitlines() if "mnn-farm crash" in line] == lines


SLOW = Missed("decode_tps", 10.0, 8.0)
PLAN = {"models": ["toy"], "backends": ["cpu"], "threads": [1]}
TOY = SimpleNamespace(name="toy", model="Toy 3", serial="S1", tier="mid")


def fine() -> Any:
    return SimpleNamespace(why=None, phone=TOY, raw="raw/0/1/")


def test_a_fine_cell_that_misses_its_tiers_slo_fails_and_says_what_was_promised() -> None:
    with pytest.raises(CellFailure) as failed:
        judge(fine(), (SLOW,))
    assert failed.value.short == ("slo: toy is in tier mid: decode speed 8.00 tok/s; at least 10.0 tok/s is promised")
    assert "  missed:   decode_tps: decode speed 8.00 tok/s" in failed.value.text
    assert failed.value.text.splitlines()[-1] == "  raw:      raw/0/1/ in the run folder"
    judge(fine())


@pytest.mark.parametrize(
    ("reasons", "status"),
    [([None], 1), ([Reason.DEVICE_LOST], 1), ([Reason.CRASH], 1)],
)
def test_a_missed_slo_is_the_products_and_so_a_1_whatever_the_lab_did(
    reasons: list[Reason | None], status: int
) -> None:
    assert exit_status([record(reason) for reason in reasons], 1, slo_missed=True) == status
    assert exit_status([record(reason) for reason in reasons], 0, slo_missed=True) == status
    assert exit_status([], 2, slo_missed=True) == 2


def test_a_dead_worker_leaves_the_miss_to_be_told() -> None:
    report: Any = SimpleNamespace(when="", outcome="", longrepr="")
    tell_outcome(report, fine(), (SLOW,))
    assert (report.when, report.outcome) == ("call", "failed")
    assert report.longrepr == slo_failure(fine(), (SLOW,)).text
    tell_outcome(report, fine())
    assert (report.when, report.outcome, report.longrepr) == ("call", "passed", None)


def test_a_plan_that_sweeps_wants_no_slo() -> None:
    assert promised(Plan.model_validate({**PLAN, "slo": {"judge": False}})) is None
    rules = promised(Plan.model_validate(PLAN))
    assert rules is not None
    assert set(rules.slo) == {"high", "mid", "low"}
