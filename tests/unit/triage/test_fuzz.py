"""Triage never raises, whatever the bytes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.commands.triage_judge import judged_entries
from harness.triage.redact import redacted
from harness.triage.rule import shipped_rules
from harness.triage.triage import Source, triage

EXAMPLES = [text for rule in shipped_rules() for text in (*rule.positive, *rule.negative)]
LINES = [line for text in EXAMPLES for line in text.splitlines()]
JUNK = [
    "\0",
    "\r",
    "\x1b[0m",
    "\ufffd",
    "é",
    "{",
    '"',
    "'",
    "[",
    "]",
    "(",
    "0",
    "-",
    " ",
    "\t",
    "%",
    "}",
    "\\",
    "|",
    ":",
]
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def survive(*texts: bytes) -> None:
    sources = [Source.of_text(str(number), text) for number, text in enumerate(texts)]
    for finding in redacted(triage(sources, judges=(judged_entries,))):
        assert finding.title
        assert finding.advice
        assert all(one.line >= 1 for one in finding.evidence)


@given(st.binary(max_size=400))
@FUZZ
def test_any_bytes(data: bytes) -> None:
    survive(data)


@given(
    st.lists(st.sampled_from(LINES + JUNK) | st.text(max_size=20), max_size=25),
    st.sampled_from(["\n", "\r\n", " ", ""]),
)
@FUZZ
def test_pieces_of_real_lines_in_any_order(parts: list[str], glue: str) -> None:
    survive(glue.join(parts).encode("utf-8", "surrogatepass"))


@given(st.sampled_from(EXAMPLES), st.data())
@FUZZ
def test_real_texts_with_bytes_changed(text: str, data: st.DataObject) -> None:
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    survive(bytes(raw), text.encode("utf-16"))
