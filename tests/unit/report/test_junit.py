from __future__ import annotations

from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as Xml

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Outcome, Reason
from harness.report.junit import junit_xml, write_junit
from harness.report.news_file import NewsFile, Told
from harness.store.schema import Finding

TAGS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def parsed(make: ModuleType, records) -> Xml.Element:
    return Xml.fromstring(junit_xml(make.info(), records))  # noqa: S314 -- we wrote it


def test_there_is_a_suite_per_phone_and_a_case_per_cell(make: ModuleType, tmp_path: Path) -> None:
    run = make.run_folder(tmp_path / "run", make.info(), make.all_verdicts())
    path = write_junit(run)
    assert path == run / "junit.xml"
    root = Xml.parse(path).getroot()  # noqa: S314 -- we wrote it
    assert {s.get("name"): len(s.findall("testcase")) for s in root.findall("testsuite")} == {"atlas": 7, "birch": 8}
    counted = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped", "time")}
    assert counted == {"tests": "15", "failures": "4", "errors": "0", "skipped": "4", "time": "37.500"}


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.code)
def test_a_reason_becomes_the_outcome_that_pytest_gives_it(make: ModuleType, reason: Reason) -> None:
    case = parsed(make, [make.record(reason=reason, measured=False)]).find("testsuite/testcase")
    assert [child.tag for child in case if child.tag != "properties"] == [TAGS[reason.outcome]]
    outcome = case.find(TAGS[reason.outcome])
    assert outcome.get("message") == f"{reason.code}: {reason.says}"
    assert outcome.get("type") == f"{reason.verdict.value}.{reason.fault.value}"


def test_a_cause_that_the_logs_show_is_told_with_its_own_advice(make: ModuleType) -> None:
    cause = Finding(
        code="missing", severity="info", title="A library is missing", cause="Nobody pushed it.", advice="Do."
    )
    cell = make.record(reason=Reason.LINK_ERROR).model_copy(update={"findings": (cause,)})
    case = parsed(make, [cell]).find("testsuite/testcase")
    assert "A library is missing. Nobody pushed it. Do." in case.find("failure").text


def test_a_case_has_name_time_and_properties(make: ModuleType) -> None:
    cell = make.fallback()
    case = parsed(make, [cell]).find("testsuite/testcase")
    assert case.get("name") == f"test_generation[atlas-tiny-llama-opencl-t1-low-p64-g32-{cell.cell_id[:6]}]"
    assert (case.get("classname"), case.get("time")) == ("atlas", "2.500")
    assert {p.get("name"): p.get("value") for p in case.iter("property")} == {
        "cell_id": cell.cell_id,
        "verdict": "rejected",
        "reason": "backend_fallback",
        "fault": "product",
    }
    text = case.find("failure").text
    assert "asked for opencl, cpu ran" in text
    assert "type=3 missing" in text


def test_an_ok_case_has_no_outcome_element(make: ModuleType) -> None:
    case = parsed(make, [make.record()]).find("testsuite/testcase")
    assert [child.tag for child in case] == ["properties"]


def test_characters_that_xml_forbids_are_shown_as_escapes(make: ModuleType) -> None:
    hostile = "a\x00b\x1b[31m\ufffe <&>\"']]>\ud800"
    cell = make.record(phone=make.phone(hostile), reason=Reason.CRASH).model_copy(update={"detail": hostile})
    case = parsed(make, [cell]).find("testsuite/testcase")
    assert case.find("failure").get("message") == "crash: a\\x00b\\x1b[31m\\ufffe <&>\"']]>\\ud800"
    assert case.get("classname").startswith("a\\x00b")


def test_an_empty_run_makes_a_valid_document(make: ModuleType) -> None:
    assert parsed(make, []).get("tests") == "0"


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a run folder"):
        write_junit(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_notes_go_with_the_case_without_making_it_look_bad(make: ModuleType) -> None:
    notes = [make.note("prepare", "odd"), make.note("recovered", "was lost and came back", "warning")]
    crash = [make.note("crash", "signal 11", "error"), *notes]
    good, bad = parsed(make, [make.record(findings=notes), make.record(reason=Reason.CRASH, findings=crash)]).iter(
        "testcase"
    )
    assert [child.tag for child in good] == ["properties", "system-out"]
    assert good.find("system-out").text == "warning recovered: was lost and came back\ninfo prepare: odd"
    assert bad.find("system-out").text == good.find("system-out").text
    assert "signal 11" in bad.find("failure").text
    assert "odd" not in bad.find("failure").text


def told_news(cell, *, state: str = "new", reason: str = "slower", red: bool = True, **over) -> NewsFile:
    item = Told(
        state=state, cell_id=cell.cell_id, phone="p", cell="c", backend="cpu", reason=reason, red=red,
        words="decode 3 tok/s, was 9", before="ok", **over,
    )  # fmt: skip
    return NewsFile(items=(item,))


def test_an_ok_cell_that_got_slower_is_a_failure(make: ModuleType) -> None:
    cell = make.record()
    root = Xml.fromstring(junit_xml(make.info(), [cell], told_news(cell)))  # noqa: S314 -- we wrote it
    failure = root.find("testsuite/testcase/failure")
    assert failure.get("message") == "slower: decode 3 tok/s, was 9"
    assert failure.get("type") == "regression.product"
    assert root.get("failures") == root.find("testsuite").get("failures") == "1"


def test_a_cell_that_was_ok_and_is_unsupported_now_is_a_failure(make: ModuleType) -> None:
    cell = make.record(reason=Reason.BACKEND_NOT_BUILT, detail="it has cpu")
    root = Xml.fromstring(  # noqa: S314 -- we wrote it
        junit_xml(make.info(), [cell], told_news(cell, reason="backend_not_built"))
    )
    case = root.find("testsuite/testcase")
    assert case.find("skipped") is None
    assert case.find("failure").text.endswith("\nit has cpu")
    assert (root.get("failures"), root.get("skipped")) == ("1", "0")


def test_state_and_ticket_are_properties_and_told(make: ModuleType) -> None:
    cell = make.record(reason=Reason.CRASH)
    news = told_news(cell, state="known", reason="crash", ticket="FARM-7")
    case = Xml.fromstring(junit_xml(make.info(), [cell], news)).find("testsuite/testcase")  # noqa: S314 -- ours
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert {key: properties[key] for key in ("state", "ticket", "before", "news")} == {
        "state": "known",
        "ticket": "FARM-7",
        "before": "ok",
        "news": "decode 3 tok/s, was 9",
    }
    assert case.find("system-out").text == "KNOWN [FARM-7]: decode 3 tok/s, was 9"
    assert case.find("failure").get("type") == "failed.product"
