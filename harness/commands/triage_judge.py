"""What ``mnn-farm judge`` thinks of MNN's figures in a text, as lines for triage's rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.bench.believe import Judged, believe
from harness.core.reasons import Reason
from harness.triage.entry import Entry, Evidence, printable

# Texts of people's size; a phone's whole log is none.
_LONGEST = 1 << 20
# What only the judge sees; errors of the engine, of drivers and of the linker have rules of their own.
_TOLD = frozenset(
    {
        Reason.BACKEND_FALLBACK,
        Reason.BACKEND_UNPROVEN,
        Reason.IMPLAUSIBLE_SPEED,
        Reason.LOAD_ERROR,
        Reason.NOISY,
        Reason.OUTPUT_DEGENERATE,
        Reason.OUTPUT_WRONG,
        Reason.SILENT_EXIT,
        Reason.TOKEN_COUNT_SHORT,
    }
)
# The judge takes for granted that a text is of one of MNN's tools; this tells whether it may be.
_OF_MNN = re.compile(
    rb"(?i)tok/s|\bt/s\b|mnn|\bllm_|i8sdot|config path is|prompt|backend|decode|\b(?:text|output|answer)\s?[=:]"
)
# The table of llm_demo alone, as people paste it: the text stood above and was left out.
_NO_TEXT = "the text is empty"
_FIELDS_ALONE = re.compile(
    rb"(?:\s|#[^\n]{0,200}\n){0,400}(?:(?:prompt|decode) tokens num|(?:prefill|decode) (?:time|speed))\b"
)
# How a mail or an issue marks what somebody else wrote, and code.
_QUOTED = re.compile(rb"^(?:(?:> ?){1,3}| {4}|\t)", re.MULTILINE)


def judged_entries(name: str, text: bytes) -> Iterator[Entry]:
    """Yield one line for each figure, text or whole output that is not to be believed."""
    if len(text) > _LONGEST or not _OF_MNN.search(text):
        return
    belief = believe(_QUOTED.sub(b"", text))
    lines = text.decode("utf-8", "replace").splitlines()
    seen: set[Reason] = set()
    for judged in (*belief.figures, belief.whole):
        if judged.reason is Reason.OUTPUT_DEGENERATE and judged.detail.endswith(_NO_TEXT) and _FIELDS_ALONE.match(text):
            continue
        # Nothing at all, or notes without an output, are no program that ended silently.
        if judged.reason is Reason.SILENT_EXIT and judged.evidence[:1] in ("", "#"):
            continue
        if judged.reason in _TOLD and judged.reason not in seen:
            seen.add(judged.reason)
            yield _entry(judged, name, lines)


def _entry(judged: Judged, name: str, lines: list[str]) -> Entry:
    wanted = judged.evidence.strip().split("\n", 1)[0][:60]
    number = next((place for place, line in enumerate(lines, 1) if wanted and wanted in line), 1)
    shown = printable(judged.evidence.split("\n", 1)[0] or (lines[number - 1] if lines else ""))[:400]
    detail = printable(judged.detail).replace("[", "(").replace("]", ")")
    code = judged.reason.code if judged.reason is not None else "ok"
    return Entry(
        f"judged: {code} figure=[{printable(judged.name)}] detail=[{detail}]",
        "judged",
        (Evidence(name, number, shown),),
    )
