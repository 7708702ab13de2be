from __future__ import annotations

from pathlib import Path

import pytest

from harness.selfcheck.parcel import model_of, parcel_path
from harness.selfcheck.report import document, exit_status, headline, table
from harness.selfcheck.result import Check, Finding, Result, broken, holds, unknown, untried
from harness.selfcheck.run import ALL


def result(name: str, finding: Finding) -> Result:
    check = Check(name, f"{name} holds", "else all is lost", "mend it", lambda _: finding)
    return Result(check, finding, 0.25)


RESULTS = [
    result("bytes", holds("all the same", count=3)),
    result("affinity", broken("it ran elsewhere")),
    result("cable", unknown("not asked")),
]


def test_the_headline_counts_and_names_what_does_not_hold() -> None:
    assert headline("F24", RESULTS) == "F24, 3 assumptions: 1 hold, 1 broken (affinity), 1 unknown (cable)"


def test_a_broken_assumption_says_what_it_means_and_what_to_do() -> None:
    assert table(RESULTS) == [
        "pass     bytes     all the same",
        "FAIL     affinity  it ran elsewhere",
        "                     assumed: affinity holds",
        "                     matters: else all is lost",
        "                     do:      mend it",
        "unknown  cable     not asked",
    ]


def test_the_document_is_not_ok_when_anything_is_broken_and_unknown_is_not_broken() -> None:
    told = document({"model": "F24"}, RESULTS, 12.34)
    assert (told["ok"], told["elapsed_s"], told["phone"]) == (False, 12.3, {"model": "F24"})
    assert told["results"][0] == {
        "name": "bytes", "outcome": "pass", "assumes": "bytes holds", "matters": "else all is lost",
        "evidence": "all the same", "advice": None, "measured": {"count": 3}, "elapsed_s": 0.25,
    }  # fmt: skip
    assert told["results"][1]["advice"] == "mend it"
    assert document({}, [RESULTS[0], RESULTS[2]], 0)["ok"] is True


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ((holds("so"), unknown("why")), 0),
        ((holds("so"), broken("no"), untried("no compiler")), 1),
        ((holds("so"), untried("no compiler")), 3),
    ],
)
def test_the_exit_status_says_whose_fault_it_is(findings: tuple[Finding, ...], status: int) -> None:
    results = [result("bytes", finding) for finding in findings]
    assert exit_status(results) == status
    assert document({}, results, 0)["ok"] is (status == 0)


def test_every_check_has_a_name_of_its_own_and_says_why_and_what_to_do() -> None:
    assert len({check.name for check in ALL}) == len(ALL)
    assert all(check.assumes and check.matters and check.advice for check in ALL)


def test_the_parcel_is_called_after_the_phone(tmp_path: Path) -> None:
    path = parcel_path(tmp_path, "Fennel F24/Pro ®")
    assert path.parent == tmp_path
    assert path.name.startswith("selfcheck-Fennel-F24-Pro-")
    assert path.suffix == ".zip"
    assert parcel_path(tmp_path / "mine.zip", "F24") == tmp_path / "mine.zip"


@pytest.mark.parametrize(
    ("said", "model"),
    [(b"[ro.product.model]: [F24 Pro]\n", "F24 Pro"), (b"", "unknown phone"), (b"\xff", "unknown phone")],
)
def test_the_phones_name_comes_from_its_properties(said: bytes, model: str) -> None:
    assert model_of({"getprop.txt": said}) == model
