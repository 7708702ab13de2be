from __future__ import annotations

from pathlib import Path

import pytest

from harness.virtual import checks
from harness.virtual.sandbox import SWITCH
from harness.virtual.userland import Tools


def test_without_a_sandbox_the_fix_says_what_to_install_and_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(SWITCH, "bubblewrap")
    finding = checks.check()[0]
    assert (finding.code, finding.severity) == ("sandbox_missing", "warning")
    assert "bubblewrap: bwrap is not installed" in finding.detail
    assert finding.fix.startswith("install bubblewrap and allow user namespaces")


def test_a_userland_that_is_not_androids_is_only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_sandbox", lambda: None)
    monkeypatch.setattr(checks, "find_tools", lambda: Tools("/usr/bin/dash", None, frozenset(), {}))
    [finding] = checks.check()
    assert (finding.code, finding.severity) == ("userland_differs", "info")
    assert finding.fix.startswith("apt-get install mksh toybox")
    monkeypatch.setattr(checks, "find_tools", lambda: Tools("/usr/bin/mksh", "/usr/bin/toybox", frozenset(), {}))
    assert checks.check() == []
