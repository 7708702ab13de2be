"""How a program ended, as far as a text tells that people captured: a console, a phone's log, a noted exit status."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from harness.bench.engine_log import find_gpu_errors
from harness.bench.evidence import Objection
from harness.core.reasons import Reason
from harness.runners.lines import Line

_FATAL = re.compile(r"Fatal signal (?P<number>\d+) \((?P<name>SIG\w+)\)")
# What shells write when a program dies, at the start of a line ("Aborted (core dumped)" too).
_CONSOLE = re.compile(
    r"(?P<what>Illegal instruction|Segmentation fault|Aborted|Bus error|Floating point exception|Trace/breakpoint trap|"
    r"Killed)\s*(?:\(core dumped\))?\s*"
)
_NAMES = {
    "Illegal instruction": "SIGILL",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Trace/breakpoint trap": "SIGTRAP",
    "Killed": "SIGKILL",
}
_SCARCE = re.compile(r"lowmemorykiller: Kill|[Oo]ut of memory: Kill|low watermark is breached")
_FIRST_SIGNAL = 128


def ended_badly(lines: Sequence[Line], exit_code: int | None, log: bytes) -> Objection | None:
    """Return what says that the program did not end by itself, ``None`` if nothing does.

    A driver's compiler that gives up aborts the program: then it is the driver's fault.
    """
    name, evidence = _death(lines, exit_code)
    if name is None:
        return None
    driver = find_gpu_errors(log)
    scarce = [line.text.strip()[:300] for line in lines if _SCARCE.search(line.text)]
    if name == "SIGABRT" and driver:
        return Objection(Reason.GPU_DRIVER_ERROR, f"the GPU's driver ended the program: {driver[0]}", driver[0])
    if name == "SIGKILL" and scarce:
        return Objection(Reason.OUT_OF_MEMORY, "killed while the phone was short of memory", scarce[-1])
    reason = Reason.ILLEGAL_INSTRUCTION if name == "SIGILL" else Reason.CRASH
    return Objection(reason, f"the program was ended by {name}", evidence)


def _death(lines: Sequence[Line], exit_code: int | None) -> tuple[str | None, str]:
    for line in lines:
        fatal, console = _FATAL.search(line.text), _CONSOLE.fullmatch(line.text)
        if fatal is not None:
            return fatal["name"], line.text.strip()[:300]
        if console is not None and line.tag is None:
            return _NAMES[console["what"]], line.text.strip()
    if (exit_code is not None and _FIRST_SIGNAL < exit_code < _FIRST_SIGNAL + 65) or (exit_code or 0) < 0:
        number = abs(exit_code or 0) % _FIRST_SIGNAL
        try:
            return signal.Signals(number).name, f"exit status {exit_code}"
        except ValueError:
            return f"signal {number}", f"exit status {exit_code}"
    return None, ""
