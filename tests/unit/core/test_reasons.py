from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.reasons import ExitStatus, Fault, Outcome, Reason, Verdict, markdown_table

# The table of the interfaces page, typed again: whoever changes the enum changes what others hold on to.
TABLE = {
    ("rejected", "product"): "backend_fallback backend_unproven output_wrong output_degenerate token_count_short "
    "implausible_speed",
    ("rejected", "infra"): "noisy hot_start throttled suspended clock_jumped low_available_memory",
    ("rejected", "harness"): "unparsed_output stale_cache",
    ("failed", "product"): "crash illegal_instruction link_error load_error engine_error gpu_driver_error "
    "out_of_memory hang silent_exit thermal_shutdown",
    ("failed", "infra"): "device_lost device_offline unauthorized rebooted push_failed payload_corrupt no_space "
    "read_only noexec adb_error lease_lost thermal_trip link_stalled host_disk_full",
    ("failed", "config"): "bad_plan model_incomplete bundle_mismatch",
    ("failed", "harness"): "harness_error",
    ("unsupported", "product"): "backend_not_built backend_missing_on_phone abi_mismatch isa_mismatch model_too_big "
    "op_unsupported",
    ("skipped", "infra"): "low_battery too_hot busy held excluded out_of_time phone_gone",
}
ROWS = [(code, verdict, fault) for (verdict, fault), codes in TABLE.items() for code in codes.split()]
DOCS = Path(__file__).parents[3] / "docs" / "reasons.md"


@pytest.mark.parametrize(("code", "verdict", "fault"), ROWS)
def test_a_reason_has_the_verdict_and_the_fault_it_was_promised(code: str, verdict: str, fault: str) -> None:
    reason = Reason.from_code(code)
    assert (reason.code, reason.verdict.value, reason.fault.value) == (code, verdict, fault)


def test_there_is_no_reason_beyond_the_table() -> None:
    assert {reason.code for reason in Reason} == {code for code, _, _ in ROWS}
    assert len(ROWS) == len(Reason)


def test_no_reason_is_another_ones_alias() -> None:
    assert len(Reason.__members__) == len(list(Reason))
    assert len({reason.says for reason in Reason}) == len(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_outcome_and_exit_status_follow_from_verdict_and_fault(reason: Reason) -> None:
    if reason.verdict in (Verdict.SKIPPED, Verdict.UNSUPPORTED):
        expected = (Outcome.SKIPPED, ExitStatus.OK)
    elif reason.fault is Fault.PRODUCT:
        expected = (Outcome.FAILED, ExitStatus.FAILED)
    elif reason.fault is Fault.INFRA:
        expected = (Outcome.FAILED, ExitStatus.INFRA)
    else:
        expected = (Outcome.ERROR, ExitStatus.FAILED)
    assert (reason.outcome, reason.exit_status) == expected


def test_exit_statuses_are_those_of_the_interfaces_page() -> None:
    assert {status.name: status.value for status in ExitStatus} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 4,
        "INFRA": 10,
        "NO_PHONE": 11,
    }


@pytest.mark.parametrize("code", ["", "nobody", "ok", "crash "])
def test_an_unknown_code_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match="unknown reason code"):
        Reason.from_code(code)


def test_the_page_about_reasons_holds_the_table_of_the_enum() -> None:
    page = DOCS.read_text(encoding="utf-8")
    table = "".join(line + "\n" for line in page.splitlines() if line.startswith("|"))
    assert table == markdown_table()
    assert table.count("\n") == len(Reason) + 2


@pytest.mark.parametrize("reason", Reason)
def test_what_a_reason_says_is_a_plain_clause(reason: Reason) -> None:
    assert reason.says
    assert not reason.says.endswith(".")
    assert "|" not in reason.says
