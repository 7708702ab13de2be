from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import HostError
from harness.virtual import sandbox
from harness.virtual.sandbox import Kind, Mount, Plan, bind

PLAN = Plan(
    "phone",
    (Mount("proc", "", "/proc"), bind("/usr", "/usr"), bind("/tmp/data", "/data", writable=True)),
    {"PATH": "/system/bin"},
    ("/usr/bin/true", "--x"),
)


def test_bubblewrap_gets_every_wall_and_mount() -> None:
    argv = sandbox.bubblewrap_argv(PLAN)
    for wall in ("user", "ipc", "pid", "net", "uts"):
        assert f"--unshare-{wall}" in argv
    assert "--die-with-parent" in argv
    text = " ".join(argv)
    assert "--cap-drop ALL" in text
    assert "--ro-bind /usr /usr --bind /tmp/data /data" in text
    assert "--proc /proc --ro-bind-try /proc/sys /proc/sys" in text  # root outside could write sysctls
    assert argv[-2:] == ["/usr/bin/true", "--x"]


def test_the_fallback_gets_the_same_plan() -> None:
    plan = json.loads(sandbox.unshare_argv(PLAN)[-1])
    assert plan["uid"] == 2000
    assert plan["mounts"][2] == {"what": "bind", "source": "/tmp/data", "place": "/data"}
    assert plan["argv"] == ["/usr/bin/true", "--x"]


def test_the_fallback_is_taken_when_bubblewrap_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = {Kind.BUBBLEWRAP: "bwrap is not installed", Kind.UNSHARE: None}
    monkeypatch.setattr(sandbox, "_problem_with", problems.__getitem__)
    assert sandbox.find_sandbox({}) is Kind.UNSHARE
    with pytest.raises(HostError, match="bubblewrap: bwrap is not installed"):
        sandbox.find_sandbox({"MNN_FARM_SANDBOX": "bubblewrap"})


def test_without_any_sandbox_the_error_says_what_to_install_or_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "_problem_with", lambda kind: f"{kind.value} is forbidden")
    with pytest.raises(
        HostError, match=r"bubblewrap is forbidden.*unshare is forbidden.*install bubblewrap and allow"
    ) as caught:
        sandbox.find_sandbox({})
    assert "\n" not in str(caught.value)


def test_a_forced_sandbox_that_nobody_knows_is_refused() -> None:
    with pytest.raises(HostError, match="set it to bubblewrap or unshare"):
        sandbox.find_sandbox({"MNN_FARM_SANDBOX": "docker"})
