"""The line that ``probe facts`` prints. Pure. What it tells is read by :mod:`harness.phone.probed`."""

from __future__ import annotations

import json

from harness.phone.probed import PROBE_FIELDS, ProbeFacts, read_probe_facts


def parse_facts(line: bytes) -> ProbeFacts:
    """Read the one line of ``probe facts``.

    Raises:
        ValueError: it is none, or only a part of one; the sentence says why.
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the answer of probe facts cannot be read ({error}): {line[:80]!r}") from error
    if not isinstance(answer, dict):
        raise ValueError(f"the answer of probe facts is no JSON object: {line[:80]!r}")
    missing = [name for name in PROBE_FIELDS if name not in answer]
    if missing:
        raise ValueError(f"the answer of probe facts has no {missing[0]!r}: {line[:80]!r}")
    return read_probe_facts(answer)
