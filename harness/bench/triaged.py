"""What the logs of a cell that is not ok say about why, by the rules of ``mnn-farm triage``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.bench.evidence import Evidence
from harness.bench.phone_log import worth_keeping
from harness.store.schema import Finding
from harness.triage.triage import Source, triage

# The likeliest cause and what else is certain; a reader of a red run reads no more.
_MOST = 3
_TITLE, _EVIDENCE, _WORDS = 500, 2000, 1000
# The system's account of a crash comes from a process of its own.
_CRASH_LINE = re.compile(rb"\b(?:DEBUG|crash_dump(?:32|64)?|tombstoned|libc)\b")


def triaged(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the causes that are known of what was printed and of what the phone's log says of it, likeliest first.

    They decide nothing: the verdict's own findings stand before them. Each carries its ``cause`` and what to do.
    """
    found = (one for one in triage(_sources(evidence)) if one.severity == "error")
    return tuple(
        Finding(
            code=one.code,
            severity="info",
            title=one.title[:_TITLE],
            evidence="\n".join(f"{line.source}: {line.text}" for line in one.evidence)[:_EVIDENCE],
            advice=" ".join(one.advice)[:_WORDS],
            cause=one.cause[:_WORDS],
        )
        for _, one in zip(range(_MOST), found, strict=False)
    )


def _sources(evidence: Evidence) -> Iterator[Source]:
    texts = {
        "stderr": evidence.run.stderr,
        "stdout": evidence.told.tool or "\n".join(evidence.told.junk).encode(),
        "phone's log": _about_us(evidence),
    }
    yield from (Source.of_text(name, text) for name, text in texts.items() if text)


def _about_us(evidence: Evidence) -> bytes:
    """Return what the phone's log says of our processes: other programs crash, too."""
    log, pids = evidence.phone_log, evidence.pids
    if not any(f"pid: {pid},".encode() in log for pid in pids):
        return worth_keeping(log, pids)
    lines = log.splitlines(keepends=True)
    ours = set(worth_keeping(log, pids).splitlines(keepends=True))
    return b"".join(line for line in lines if line in ours or _CRASH_LINE.search(line))
