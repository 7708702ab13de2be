"""``mnn-farm doctor``: what is wrong with this computer, and the fix of each."""

from __future__ import annotations

from dataclasses import asdict

import typer

from harness.commands.output import Json, print_json, say
from harness.core.hostcheck import HostFinding
from harness.doctor.checkup import check_up
from harness.doctor.host import Host


def doctor(as_json: Json = False) -> None:
    """Check this computer: adb, keys, USB access, disk, Python, MNN, compiler, sandbox. Each finding has its fix.

    It changes nothing and talks to a running adb server only by asking for its version. Exit status 1: an error.
    """
    findings: list[HostFinding] = []
    names: list[str] = []
    for checked in check_up(Host()):
        names.append(checked.name)
        findings += checked.findings
        if as_json:
            continue
        if not checked.findings:
            say(f"ok       {checked.name}")
        for finding in checked.findings:
            say(f"{finding.severity:8} {checked.name}: {finding.title}")
            say(f"         {finding.detail}")
            say(f"         fix: {finding.fix}")
    bad = any(finding.severity == "error" for finding in findings)
    if as_json:
        print_json({"ok": not bad, "checks": names, "findings": [asdict(finding) for finding in findings]})
    raise typer.Exit(1 if bad else 0)
