from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.doctor.host import Ran
from harness.doctor.software import check_mnn, check_packages, check_python, check_zig

from .conftest import MakeHost


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        ((3, 9), [("python_old", "error")]),
        ((3, 10), []),
        ((3, 13), []),
        ((3, 14), [("python_new", "warning")]),
    ],
)
def test_python_is_one_of_those_tested(make_host: MakeHost, version: tuple[int, int], codes: list[str]) -> None:
    findings = check_python(make_host(python_version=version))
    assert [(finding.code, finding.severity) for finding in findings] == codes
    assert all(finding.fix.endswith("make PYTHON=python3.12") for finding in findings)


def test_packages_are_there_and_new_enough(make_host: MakeHost) -> None:
    have = {"a": "2.0", "b": "1.10.0rc1", "c": "0.9", "d": "5"}
    required = ("a>=2", "b>=1.9", "c>=0.13", "d", "e>=1; python_version < '4'", "a[x]>=1.0")
    [finding] = check_packages(make_host(requirements=required, installed=have.get))
    assert (finding.code, finding.severity) == ("packages_wrong", "error")
    assert finding.detail == "c is 0.9, needed is 0.13; e is missing"
    assert check_packages(make_host(requirements=("a>=2",), installed=have.get)) == []


@pytest.mark.parametrize(
    ("ran", "says", "fix"),
    [
        (Ran(1, "", "ImportError: no MNN\n"), "exit code 1: ImportError: no MNN", "pip install --force-reinstall MNN"),
        (Ran(-4, "", ""), "ended by SIGILL", "use another computer"),
        (Ran(None, "", "", "it did not end in 120 s"), "it did not end in 120 s", "pip install --force-reinstall MNN"),
    ],
)
def test_an_engine_that_does_not_load_is_an_error(make_host: MakeHost, ran: Ran, says: str, fix: str) -> None:
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str], _seconds: float) -> Ran:
        asked.append(argv)
        return ran

    [finding] = check_mnn(make_host(run=run))
    assert (finding.code, finding.severity, finding.detail) == ("mnn_broken", "error", says)
    assert fix in finding.fix
    assert not any("MNN.tools" in word for argv in asked for word in argv)


@pytest.mark.parametrize("ran", [Ran(1, "", "No module named ziglang"), Ran(0, "what?", "")])
def test_a_compiler_that_does_not_run_is_an_error(make_host: MakeHost, ran: Ran) -> None:
    [finding] = check_zig(make_host(run=lambda *_: ran))
    assert (finding.code, finding.severity) == ("zig_broken", "error")
    assert finding.fix.endswith("pip install --force-reinstall ziglang")
    assert check_zig(make_host(run=lambda *_: Ran(0, "0.15.1\n", ""))) == []
