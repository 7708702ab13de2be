"""What virtual phones need of this computer, for ``mnn-farm doctor``."""

from __future__ import annotations

from harness.core.errors import HostError
from harness.core.hostcheck import HostFinding
from harness.virtual.sandbox import find_sandbox
from harness.virtual.userland import find_python, find_tools


def check() -> list[HostFinding]:
    """Look for a sandbox that works, and for what makes its inside like a phone's."""
    findings = []
    try:
        find_sandbox()
    except HostError as error:
        findings.append(_missing("sandbox_missing", "virtual phones cannot be started", error))
    try:
        find_python()
    except HostError as error:
        findings.append(_missing("python_not_mountable", "virtual phones cannot have this Python", error))
    try:
        tools = find_tools()
    except HostError as error:
        return [*findings, _missing("shell_missing", "virtual phones have no shell", error)]
    lacking = [name for name, there in (("mksh", "mksh" in tools.shell), ("toybox", tools.toybox)) if not there]
    if lacking:
        findings.append(
            HostFinding(
                "userland_differs",
                "info",
                "the shell of virtual phones differs from a phone's",
                f"{' and '.join(lacking)} not found; programs of this PC stand in",
                f"apt-get install {' '.join(lacking)} (Debian and Ubuntu)",
            )
        )
    return findings


def _missing(code: str, title: str, error: HostError) -> HostFinding:
    return HostFinding(code, "warning", title, error.message, error.remedy)
