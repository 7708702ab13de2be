from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import plugin
from harness.core.errors import ConfigError
from harness.plugin.compared import read_against, read_known
from harness.plugin.verdicts import CellFailure

ENTRY = '[[known]]\nticket = "{}"\nexpires = 2030-01-01\nnote = "n"\nreason = "crash"\n'


def config(root: Path, **given: Any) -> pytest.Config:
    made = SimpleNamespace(getoption=given.get, rootpath=root, invocation_params=SimpleNamespace(dir=root))
    return cast("pytest.Config", made)


def head(against: str | None) -> Any:
    return SimpleNamespace(against=against)


def test_known_issues_lie_in_pytests_root_folder_unless_a_file_is_named(tmp_path: Path) -> None:
    assert read_known(config(tmp_path)) == ()
    (tmp_path / "known_issues.toml").write_text(ENTRY.format("T-1"))
    other = tmp_path / "other.toml"
    other.write_text(ENTRY.format("T-2"))
    assert [each.ticket for each in read_known(config(tmp_path))] == ["T-1"]
    assert [each.ticket for each in read_known(config(tmp_path, known=str(other)))] == ["T-2"]


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_known(config(tmp_path, known=str(tmp_path / "gone.toml")))


def test_a_resumed_run_is_held_against_what_it_was_begun_with(tmp_path: Path) -> None:
    assert read_against(config(tmp_path), None) is None
    assert read_against(config(tmp_path), head("none")) == "none"
    assert read_against(config(tmp_path, against="last"), head("none")) == "last"


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--against gone: that is no run folder"):
        read_against(config(tmp_path, against="gone"), None)


def test_a_name_is_looked_for_where_runs_lie(tmp_path: Path) -> None:
    for beside, given in ((tmp_path / "reports", {}), (tmp_path / "mine", {"run_dir": str(tmp_path / "mine" / "new")})):
        run = beside / "base"
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        with pytest.raises(ConfigError, match=r"base/run\.json cannot be read as a run's head"):
            read_against(config(tmp_path, against="base", **given), None)


def call(worse: CellFailure | None) -> Any:
    """The hook around a test's call, at the point where the test runs."""
    item = SimpleNamespace(stash={} if worse is None else {plugin._WORSE: worse})
    around = plugin.pytest_runtest_call(cast("pytest.Item", item))
    next(around)
    return around


def test_a_cell_that_got_worse_fails_whether_its_test_passes_or_skips_it() -> None:
    worse = CellFailure("slower", "slower")
    with pytest.raises(CellFailure, match="slower"):
        next(call(worse))
    with pytest.raises(CellFailure, match="slower"):
        call(worse).throw(pytest.skip.Exception("unsupported"))


def test_what_else_a_test_says_stays() -> None:
    with pytest.raises(ZeroDivisionError):
        call(CellFailure("slower", "slower")).throw(ZeroDivisionError())
    with pytest.raises(pytest.skip.Exception):
        call(None).throw(pytest.skip.Exception("unsupported"))
    with pytest.raises(StopIteration):
        next(call(None))
