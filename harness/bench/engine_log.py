"""What MNN writes when it does something else than it was asked: one table of markers, read from any of its output.

Sources: MNN 3.6.1's ``Schedule.cpp``, ``Executor.cpp``, ``OpenCLRuntime.cpp``, ``OpenCLBackend.cpp``,
``VulkanBackend.cpp``, ``llm.cpp``; captured in ``tests/data/mnn``. MNN's tools exit with 0 after most of them, so the
text is the only witness. Lines may come from the phone's log: what is given back has no log prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.runners.lines import split_prefix
from harness.runners.mnn_tools import BACKEND_CODES

_FALLBACK = re.compile(
    rb"Can(?:'|\xe2\x80\x99)t Find type=\d+ backend(?:, use (?P<used>\d+) instead)?"
    rb"|type=\d+ backend don't Support Low Power, use (?P<used2>\d+) instead"
    rb"|Don't support \d+\s*$"
    rb"|init error, fallback|Parsing OpenCL symbols error|CL ERROR CODE : -1001\b"
)
# A model that did not load, or only in part.
_LOAD = re.compile(
    rb"LLM init error|Can't open file:.*\.mnn(?:\.weight)?\b|File not exist: .*\.mnn|"
    rb"(?:weight|tokenizer|config|model) file not found|Failed to (?:open|load) (?:tokenizer|embedding|weight|model)|"
    rb"Create (?:module|interpreter) (?:failed|error)|Load module (?:failed|error)|can't load module|"
    rb"Module::load failed|Invalidate buffer to create|Load MNN from .* Failed|Unable to open (?:llm_)?config file|"
    rb"ReadQuanData_c return|Model has no oplist|Invalid Model,|generation strategy failed to load|"
    rb"LLM in error state\. Status: -1\b|is input but not found|Can't find output .* from the model",
    re.IGNORECASE,
)
# A GPU's driver or compiler that gave up.
_GPU = re.compile(
    rb"OpenCL (?:[\w ]+ )?error|CL ERROR CODE|LLVM ERROR|Build program failed|getKernel: .* error|VK_ERROR_\w+",
    re.IGNORECASE,
)
_ERROR = re.compile(
    _LOAD.pattern + rb"|" + _GPU.pattern + rb"|"
    rb"\[Error\]|Resize error|Create (?:Runtime|execution|backend) (?:failed|error)|"
    rb"Can't create (?:Runtime|executor)|Runtime not valid|Can't run session|Invalid json|"
    rb"Memory not Enough|Memory alloc failed|Alloc memory (?:for|or) .*error|_allocTensor failed|"
    rb"execution invalid \(OOM\)|Compute Shape Error|Error to compute shape|code=[1-9]\d* in onForward|"
    rb"Don't support type \[|LLM in error state|Generation failed|Error in forward|TESTERROR|Output not available|"
    rb"Parse arguments error",
    re.IGNORECASE,
)
# Builds with OPENCL_FALLBACK_LOG or MNN_OP_SUPPORT_LOG, and the vendors' backends, name the operators they leave to the
# CPU. (With brackets around the type it is the CPU that has no such operator: an error.)
_MIXED = re.compile(
    rb"(?:The Creator )?Don't support type (?!\[)\w+|Vulkan don't support (?:\d+, \w|for )|"
    rb"beyond cl_image creat\w* size|not support interp\w* type:? ?\d+, fallback to cpu|QNN \w+ .*error fallback"
)
_MISSING = re.compile(rb"no creator for (?P<code>\d+)")
# Its library is there, and the phone's driver is not, or is of no use.
_NO_DRIVER = re.compile(rb"OpenCL init error, fallback")
# Only a GPU's runtime has compiled kernels to write down.
_COMPILED = re.compile(rb"Update cache to \S+, (?:from )?size")
# MNN tries to open its caches first and says so when there are none yet: no error. The whole line, so that an error
# which merely names the cache stays one (MNN 3.6.1, captured).
_BENIGN = re.compile(r"Can't open file:.*(?:mnn_cachefile\.bin|\.tempcache)|Load Cache file error\.?")
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

    Where a line names the backend that is used instead, a later line that does so too is the better evidence. A backend
    named as its own replacement is none at all: see :func:`find_missing_backend`.
    """
    vague: FallbackMark | None = None
    for line in log.splitlines():
        match = _FALLBACK.search(line)
        if match is not None:
            code = match["used"] or match["used2"]
            used = "cpu" if code is None else BACKEND_CODES.get(int(code), f"type {int(code)}")
            mark = FallbackMark(used, _plain(line))
            if used != asked and code is not None:
                return mark
            vague = vague or (mark if used != asked else None)
    return vague


def find_errors(log: bytes) -> list[str]:
    """Return every line that is an error of the engine, in order, without repeats."""
    return _lines(_ERROR, log)


def find_load_errors(log: bytes) -> list[str]:
    """Return every line that says that the model, or a part of it, was not loaded."""
    return _lines(_LOAD, log)


def find_gpu_errors(log: bytes) -> list[str]:
    """Return every line in which a GPU's driver or compiler gives up."""
    return _lines(_GPU, log)


def find_mixed(log: bytes) -> list[str]:
    """Return every line that names an operator which the backend left to the CPU: what ran is a mixture.

    Ordinary builds do this silently, so that an empty list proves nothing.
    """
    return _lines(_MIXED, log)


def find_missing_backend(log: bytes) -> FallbackMark | None:
    """Return the line that says that this process has no such backend at all, ``used`` being the missing one.

    ``MNNV2Basic`` then says that it uses the missing backend instead of itself, and nothing runs.
    """
    for line in log.splitlines():
        match = _MISSING.search(line)
        if match is not None:
            return FallbackMark(BACKEND_CODES.get(int(match["code"]), f"type {int(match['code'])}"), _plain(line))
    return None


def find_missing_driver(log: bytes) -> str | None:
    """Return the line that says that a backend is built in and finds no driver on the phone that it can use."""
    found = _lines(_NO_DRIVER, log)
    return found[0] if found else None


def find_compiled(log: bytes) -> str | None:
    """Return the line in which a GPU's runtime writes the kernels it compiled: proof that one was made."""
    found = _lines(_COMPILED, log)
    return found[0] if found else None


def find_link_errors(log: bytes) -> list[str]:
    """Return every line in which the dynamic linker refuses the program."""
    return _lines(_LINK, log)


def _lines(pattern: re.Pattern[bytes], log: bytes) -> list[str]:
    found = []
    for line in log.splitlines():
        if pattern.search(line):
            plain = _plain(line)
            if not _BENIGN.fullmatch(plain):
                found.append(plain)
    return list(dict.fromkeys(found))


def _plain(line: bytes) -> str:
    return split_prefix(line.decode("utf-8", "replace").strip()).text.strip()[:300]


def last_lines(log: bytes, lines: int = 5) -> str:
    """Return the end of a log as text: evidence that a person reads."""
    return "\n".join(log.decode("utf-8", "replace").strip().splitlines()[-lines:])[-1000:]
