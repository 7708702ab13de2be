"""CPU features: those that a phone has, and those that a build asks for, put beside each other. Pure.

A phone tells them in ``/proc/cpuinfo``, by ``lscpu`` or in our facts; a build in its flags
(``-march=armv8.2-a+dotprod``) or in the bundle's manifest. The same chip has other features under other firmware, so
that only the phone's own list counts.
"""

from __future__ import annotations

import re

from harness.triage.entry import Entry, Evidence

NEEDLES = ("Features", "Flags:", "cpu_features", "-march=", "-mcpu=")

_HAS = re.compile(
    r"^\s{0,8}(?:Features\s{0,4}: |Flags:\s{1,60}(?=[a-z0-9_ ]{0,40}\basimd\b))(?P<names>[a-z0-9_ ]{4,900})\s{0,4}$"
)
_LISTED = re.compile(r"\"?cpu_features\"?\s?(?P<sign>[:=])\s?\[(?P<names>[^\]]{0,900})\]")
_FLAGS = re.compile(r"-m(?:arch|cpu)=(?P<base>[\w.-]{2,24})(?P<flags>(?:\+[a-z0-9]{2,12}){0,16})")
# A version of the architecture has features in it without being asked.
_BASE = re.compile(r"armv(?P<major>[89])(?:\.(?P<minor>\d))?-?a?$")
# Names of compilers → names of the kernel.
_KERNEL_NAMES = {
    "dotprod": "asimddp", "fp16": "asimdhp", "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2", "sme": "sme",
    "sme2": "sme2", "lse": "atomics",
}  # fmt: skip
# What builds for newer phones ask for, where nobody tells what this one does.
_USUAL = ("asimddp", "asimdhp", "i8mm")


class FeatureReader:
    """Gathers both lists over all texts: facts are JSON, a bundle's manifest is TOML."""

    def __init__(self) -> None:
        self._has: tuple[frozenset[str], Evidence] | None = None
        self._needs: tuple[frozenset[str], Evidence] | None = None

    def take(self, entry: Entry) -> None:
        """Look at one line."""
        text, evidence = entry.text, entry.evidence[0]
        if (match := _HAS.match(text)) is not None:
            self._has = self._has or (frozenset(match["names"].split()), evidence)
        elif (match := _FLAGS.search(text)) is not None:
            flags = {_KERNEL_NAMES[flag] for flag in match["flags"].split("+") if flag in _KERNEL_NAMES}
            if flags := flags | _of_base(match["base"]):
                self._needs = self._needs or (frozenset(flags), evidence)
        elif (match := _LISTED.search(text)) is not None:
            names = frozenset(re.findall(r"[a-z0-9_]+", match["names"]))
            if match["sign"] == "=":
                self._needs = self._needs or (names, evidence)
            else:
                self._has = self._has or (names, evidence)

    def entries(self) -> list[Entry]:
        """Return what the phone lacks, as a line for rules; nothing where it lacks nothing, or is not known."""
        if self._has is None or not self._has[0]:
            return []
        has, shown = self._has
        if self._needs is not None and self._needs[0]:
            missing = sorted(self._needs[0] - has)
            evidence = (shown, self._needs[1])
            return [Entry(f"features: missing=[{', '.join(missing)}]", "facts", evidence)] if missing else []
        lacks = [name for name in _USUAL if name not in has]
        return [Entry(f"features: lacks=[{', '.join(lacks)}]", "facts", (shown,))] if lacks else []


def _of_base(base: str) -> set[str]:
    """Return what engines' kernels use of what ``armv8.7-a`` and its like ask for by their version alone."""
    match = _BASE.match(base)
    if match is None:
        return set()
    version = (int(match["major"]), int(match["minor"] or 0))
    asked = {"asimddp": (8, 4), "i8mm": (8, 6), "sve2": (9, 0)}
    # Version 9.0 is built on 8.5, 9.1 on 8.6.
    older = (8, version[1] + 5) if version[0] == 9 else version
    return {name for name, since in asked.items() if (version if since[0] == 9 else older) >= since}
