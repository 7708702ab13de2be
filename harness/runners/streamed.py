"""The text that ``llm_demo`` streams: every token's bytes with the moment at which the probe read them. Pure.

``llm_demo`` writes to C++'s ``cout`` and flushes it behind each token and at ``std::endl``; what it prints besides goes
to C's ``stdout`` and leaves with the next flush (MNN 3.6.1, ``llm_demo.cpp`` and ``ArGeneration::generate``):

- ``prompt file is …`` ends with ``std::endl``. Behind it the file is read and the first prompt submitted, so that the
  moment of that line is the first prompt's submission, by less than a millisecond.
- Each token is written when it was sampled, before the next step is computed.
- Nothing is flushed between the last step of an answer and the next prompt, unless a stop token ended the answer:
  when later prompts are submitted nobody can see.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate

from harness.payload.probe_events import RunLog
from harness.runners.lines import split_prefix
from harness.runners.llm_demo import is_machine

_BEGIN = re.compile(rb"(?:^|(?<=\n))prompt file is [^\n]*\n")
_RULER = re.compile(rb"\r?\n[ \t]*#{20,}[ \t]*\r?\n")


@dataclass(frozen=True)
class Streamed:
    """What came between the prompt file's line and the summary.

    ``chunks`` are moments (CLOCK_MONOTONIC in ns) and bytes, ``submitted_ns`` is when the first prompt was submitted,
    ``None`` where that line came together with text. ``head`` and ``tail`` are what the tool printed around it.
    """

    head: bytes
    chunks: tuple[tuple[int, bytes], ...]
    tail: bytes
    submitted_ns: int | None

    @property
    def data(self) -> bytes:
        """All of the text."""
        return b"".join(data for _, data in self.chunks)


@dataclass(frozen=True)
class Part:
    """The text of one prompt. ``stamps_ns`` has the moment of each token, ``None`` where chunks are no tokens.

    ``span_ns`` are the moments of the first token and of the last, where at least these came by themselves.
    """

    data: bytes
    stamps_ns: tuple[int, ...] | None
    span_ns: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The text; half a character at its end becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")


def read_stream(run: RunLog) -> Streamed:
    """Return the text that a run streamed."""
    whole = run.stdout
    begun = _BEGIN.search(whole)
    if begun is None:
        return Streamed(whole, (), b"", None)
    begin = begun.end()
    rulers = [match.start() for match in _RULER.finditer(whole, begin) if b"tokens num" in whole[match.end() :][:80]]
    end = rulers[0] if rulers else len(whole)
    engine = b""
    chunks: list[tuple[int, bytes]] = []
    submitted_ns: int | None = None
    at = 0
    for output in run.outputs:
        if output.fd != 1:
            continue
        start, at = at, at + len(output.data)
        if start < begin <= at:
            submitted_ns = output.mono_ns if at == begin else None
        said, data = _without_engine(whole[max(start, begin) : min(at, end)] if at > begin and start < end else b"")
        engine += said
        if data:
            chunks.append((output.mono_ns, data))
    return Streamed(whole[:begin] + engine, tuple(chunks), whole[end:], submitted_ns)


def _without_engine(data: bytes) -> tuple[bytes, bytes]:
    """Split off the lines of the engine that left with a token."""
    said = b""
    while b"\n" in data:
        line, rest = data.split(b"\n", 1)
        read = split_prefix(line.decode("utf-8", "replace"))
        if not line.strip() or read.comment is not None or not is_machine(read):
            break
        said, data = said + line + b"\n", rest
    return said, data


def parts_of(streamed: Streamed, prompts: int, tokens: int) -> tuple[Part, ...] | None:
    """Return the text of each of ``prompts`` equal prompts, ``None`` where it cannot be divided.

    Greedy texts are equal, so that bytes divide them; else the chunks do, when there is one for every token.
    """
    size, left_over = divmod(len(streamed.data), prompts)
    if size and not left_over and streamed.data == streamed.data[:size] * prompts:
        parts = [_by_bytes(streamed, number * size, (number + 1) * size, tokens) for number in range(prompts)]
        # Of equal texts the first token is as long in each.
        first = next((place for part, place in parts if part.stamps_ns is not None), None)
        return tuple(part if place == first else replace(part, span_ns=None) for part, place in parts)
    if len(streamed.chunks) != prompts * tokens:
        return None
    groups = [streamed.chunks[number * tokens : (number + 1) * tokens] for number in range(prompts)]
    return tuple(Part(b"".join(data for _, data in group), tuple(ns for ns, _ in group)) for group in groups)


def _by_bytes(streamed: Streamed, begin: int, end: int, tokens: int) -> tuple[Part, int]:
    """Return the text between two places, and how long its first chunk is."""
    ends = list(accumulate(len(data) for _, data in streamed.chunks))
    inside = [place for place, at in enumerate(ends) if begin < at <= end]
    starts = [ends[place] - len(streamed.chunks[place][1]) for place in inside]
    data = streamed.data[begin:end]
    if len(inside) < 2 or starts[0] != begin or ends[inside[-1]] != end:
        return Part(data, None), 0
    stamps = tuple(streamed.chunks[place][0] for place in inside)
    part = Part(data, stamps if len(inside) == tokens else None, (stamps[0], stamps[-1]))
    return part, ends[inside[0]] - begin
