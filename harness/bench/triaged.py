"""What the logs of a cell that is not ok say about why, by the rules of ``mnn-farm triage``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from harness.bench.crash_phone import TOMBSTONE_NAME, PhoneSaid, names_process
from harness.bench.evidence import Evidence
from harness.bench.phone_log import PhoneLog, memory_kill, since, worth_keeping, writer_of
from harness.store.schema import Finding
from harness.triage.parcel import bounded
from harness.triage.readers.crash import Frame
from harness.triage.triage import Source, triage

# The likeliest cause and what else is certain; a reader of a red run reads no more.
_MOST = 3
_TITLE, _EVIDENCE, _WORDS = 500, 2000, 1000
# Of one source; a longer one keeps its begin and its end.
MOST_BYTES = 512 << 10
# The system's account of a crash comes from a process of its own.
_CRASH_LINE = re.compile(rb"\b(?:DEBUG|crash_dump(?:32|64)?|tombstoned)\b")
# Names of sources, as findings show them.
STDERR, STDOUT, PHONE_LOG, CRASH_BUFFER, KERNEL = "stderr", "stdout", "phone's log", "crash buffer", "kernel's log"


def triaged(texts: Mapping[str, bytes], name_frame: Callable[[Frame], str | None] | None = None) -> tuple[Finding, ...]:
    """Return the causes that are known of what was printed and of what the phone says of it, likeliest first.

    They decide nothing: the verdict's own findings stand before them. Each carries its ``cause`` and what to do.

    Args:
        texts: of :func:`texts_of`.
        name_frame: names a frame of a stack that the phone could not name.
    """
    sources = [Source.of_text(name, text) for name, text in texts.items()]
    found = (one for one in triage(sources, name_frame=name_frame) if one.severity == "error")
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


def texts_of(evidence: Evidence, said: PhoneSaid | None = None, log: PhoneLog | None = None) -> dict[str, bytes]:
    """Return what speaks of our processes, by source: other programs crash, too.

    Args:
        evidence: what the run left.
        said: what the phone told afterwards. It counts where the log that was read with the run lacks it.
        log: that log, with the line that it was read from.
    """
    pids = evidence.pids
    texts = {
        STDERR: evidence.run.stderr,
        STDOUT: evidence.told.tool or "\n".join(evidence.told.junk).encode(),
        PHONE_LOG: about_us(evidence.phone_log, pids),
    }
    if said is not None:
        if not _has_block(texts[PHONE_LOG], pids):
            texts |= _crash_of(said, pids, log.mark if log is not None else b"")
        kernel = said.texts.get("dmesg", b"")
        if not any(memory_kill(texts[PHONE_LOG], pid) for pid in pids):
            texts[KERNEL] = b"\n".join(line.encode() for pid in pids if (line := memory_kill(kernel, pid)))
    return {name: bounded(text, MOST_BYTES)[0] for name, text in texts.items() if text}


def _crash_of(said: PhoneSaid, pids: Collection[int], mark: bytes) -> dict[str, bytes]:
    """Return the account of our crash in the crash buffer, else in a tombstone."""
    lines, _ = since(said.texts.get("crash", b""), mark)
    buffer = about_us(lines, pids)
    if _has_block(buffer, pids):
        return {CRASH_BUFFER: buffer}
    return {
        name: text for name, text in said.texts.items() if name.startswith(TOMBSTONE_NAME) and names_process(text, pids)
    }


def _has_block(log: bytes, pids: Collection[int]) -> bool:
    return any(f"pid: {pid}, tid: ".encode() in log for pid in pids)


def about_us(log: bytes, pids: Collection[int]) -> bytes:
    """Return what a phone's log says of these processes: their own lines, their kills, and blocks of their crashes."""
    if not _has_block(log, pids):
        return worth_keeping(log, pids)
    lines = log.splitlines(keepends=True)
    dumpers = {writer_of(line) for line in lines if _has_block(line, pids)}
    ours = set(worth_keeping(log, pids).splitlines(keepends=True))
    return b"".join(line for line in lines if line in ours or (_CRASH_LINE.search(line) and writer_of(line) in dumpers))
