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
    rb"Can't Find type=\d+ backend, use (?P<used>\d+) instead"
    rb"|type=\d+ backend don't Support Low Power, use (?P<used2>\d+) instead"
    rb"|Don't support \d+\s*$"
    rb"|init error, fallback|Parsing OpenCL symbols error|CL ERROR CODE : -1001\b"
)
_ERROR = re.compile(
    rb"\[Error\]: |LLM init error|Resize error|Can't open file:.*\.mnn(?:\.weight)?\b|File not exist: .*\.mnn|"
    rb"Create (?:Runtime|execution|module|interpreter) (?:failed|error)|Can't create Runtime|Runtime not valid|"
    rb"Can't run session|Invalidate buffer to create|Invalid json|Unable to open (?:llm_)?config file|"
    rb"ReadQuanData_c return|Memory not Enough|Memory alloc failed|Alloc memory or compute size error|"
    rb"Compute Shape Error|code=[1-9]\d* in onForward|Don't support type \[|is input but not found|Load module error|"
    rb"Response generation failed|OpenCL (?:[\w ]+ )?error|CL ERROR CODE|LLVM ERROR|Parse arguments error",
    re.IGNORECASE,
)
# MNN tries to open its caches first and says so when there are none yet: no error. The whole line, so that an error
# which merely names the cache stays one (MNN 3.6.1, captured).
_BENIGN = re.compile(rb"Can't open file:.*(?:mnn_cachefile\.bin|\.tempcache)|Load Cache file error\.?")
# What the linker and the shell say before the engine had a word (bionic's linker, mksh; glibc's and musl's loaders).
_LINK = re.compile(
    rb"CANNOT LINK EXECUTABLE|cannot locate symbol|library \"[^\"]*\" not found|is (?:32|64)-bit instead of \d+-bit|"
    rb"\" is for \S+ \(\d+\) instead of|has bad ELF magic|has unexpected e_type|TLS segment is underaligned|"
    rb"cannot be smaller than system page size|only (?:position independent executables \()?PIE\)? (?:are )?supported|"
    rb"not executable: \d+-bit ELF|error while loading shared libraries|Error loading shared library|"
    rb"symbol lookup error"
)


@dataclass(frozen=True)
class FallbackMark:
    """The engine said that it uses another backend; ``used`` is its name, the line is the evidence."""

    used: str
    line: str


def find_fallback(log: bytes, asked: str | None = None) -> FallbackMark | None:
    """Return the first line that admits a fallback, to another backend than ``asked`` if that is given.

    Where a line names the backend that is used instead, a later line that does so too is the better evidence.
    """
    vague: FallbackMark | None = None
    for line in log.splitlines():
        match = _FALLBACK.search(line)
        if match is not None:
            code = match["used"] or match["used2"]
            used = "cpu" if code is None else BACKEND_CODES.get(int(code), f"type {int(code)}")
            mark = FallbackMark(used, line.decode("utf-8", "replace").strip()[:300])
            if used != asked and code is not None:
                return mark
            vague = vague or (mark if used != asked else None)
    return vague


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
        if pattern.search(line) and not _BENIGN.fullmatch(line.strip())
    ]
    return list(dict.fromkeys(found))


def last_lines(log: bytes, lines: int = 5) -> str:
    """Return the end of a log as text: evidence that a person reads."""
    return "\n".join(log.decode("utf-8", "replace").strip().splitlines()[-lines:])[-1000:]
