"""What ``probe bandwidth`` prints, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.payload.probe_fields import load_line


def parse_bandwidth(line: bytes) -> Mapping[int, float]:
    """Return memory read bandwidth in GB/s (10^9 bytes) by number of threads.

    Raises:
        ValueError: it is no such answer; the sentence says why.
    """
    fields = load_line(line, "the answer of probe bandwidth")
    found = {entry.integer("threads"): entry.fraction("gb_per_s") for entry in fields.objects("results")}
    if not found or min(found.values()) <= 0:
        raise ValueError("the answer of probe bandwidth holds a speed that is not above 0")
    return found
