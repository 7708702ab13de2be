"""What MNN writes when it does something else than it was asked: one table of markers, read from any of its output.

Sources: MNN 3.6.1's ``Schedule.cpp``, ``Executor.cpp``, ``OpenCLRuntime.cpp``, ``llm.cpp``; captured in
``tests/data/mnn``. MNN's tools exit with 0 after most of them, so the text is the only witness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# MNNForwardType; 13 is the CPU's fp16 extension.
BACKEND_CODES = {0: "cpu", 1: "metal", 2: "cuda", 3: "opencl", 7: "vulkan", 13: "cpu"}

_FALLBACK = re.compile(
    rb"Can't Find type=(?P<asked>\d+) backend, use (?P<used>\d+) instead"
    rb"|type=(?P<asked2>\d+) backend don't Support Low Power, use (?P<used2>\d+) instead"
    rb"|(?P<init>OpenCL init error, fallback|Parsing OpenCL symbols error|CL ERROR CODE : -1001)"
)
_ERROR = re.compile(
    rb"(?:\[Error\]: .*|LLM init error.*|Resize error.*|Can't open file:.*\.mnn(?:\.weight)?\b.*|"
    rb"Create (?:Runtime|execution|module|interpreter) (?:failed|error).*|Compute Shape Error.*|"
    rb"Alloc memory or compute size error.*|OpenCL error.*|CL ERROR CODE.*|Load module error.*|Memory alloc failed.*)"
)
# MNN tries to open its caches first and says so when there are none yet: no error (facts of MNN 3.6.1, captured).
_BENIGN = re.compile(rb"mnn_cachefile\.bin|Load Cache file error")
# What the linker and the shell say before the engine had a word (bionic's linker, mksh).
_LINK = re.compile(rb"CANNOT LINK EXECUTABLE.*|cannot locate symbol.*|library \"[^\"]*\" not found.*")


@dataclass(frozen=True)
class FallbackMark:
    """The engine said that it uses another backend; ``used`` is its name, the line is the evidence."""

    used: str
    line: str


def find_fallback(log: bytes) -> FallbackMark | None:
    """Return the first line that admits a fallback."""
    for line in log.splitlines():
        match = _FALLBACK.search(line)
        if match is not None:
            code = match["used"] or match["used2"]
            used = "cpu" if code is None else BACKEND_CODES.get(int(code), f"type {int(code)}")
            return FallbackMark(used, line.decode("utf-8", "replace").strip()[:300])
    return None


def find_errors(log: bytes) -> list[str]:
    """Return every line that is an error of the engine, in order, without repeats."""
    return _lines(_ERROR, log)


def find_link_errors(log: bytes) -> list[str]:
    """Return every line in which the dynamic linker refuses the program."""
    return _lines(_LINK, log)


def _lines(pattern: re.Pattern[bytes], log: bytes) -> list[str]:
    found = [
        line.decode("utf-8", "replace").strip()[:300]
        for line in log.splitlines()
        if pattern.search(line) and not _BENIGN.search(line)
    ]
    return list(dict.fromkeys(found))
