"""What limits the cells of a phone, for its part of the page: threads, depth of history, the memory's speed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.cells import value_at, why_unknown
from harness.report.depth import Depths, depths_of
from harness.report.text import number
from harness.report.threads import Sweep, gpu_note, thread_sweeps
from harness.store.head import RunInfo
from harness.store.schema import CellRecord


@dataclass(frozen=True)
class PhoneLimits:
    """What is said of one phone below its table."""

    sweeps: tuple[Sweep, ...]
    depths: tuple[Depths, ...]
    gpu_note: str

    @property
    def any(self) -> bool:
        """Whether there is something to say."""
        return bool(self.sweeps or self.depths or self.gpu_note)


def phone_limits(info: RunInfo, group: Sequence[CellRecord]) -> PhoneLimits:
    """Return what limits the cells of one phone; ``info`` has its facts."""
    facts = next((member.facts for member in info.fleet if member.phone.id == group[0].phone.id), {})
    return PhoneLimits(
        tuple(thread_sweeps(group, facts.get("cpu_clusters") or ())),
        tuple(depths_of(group)),
        gpu_note(group, info.plan, info.command),
    )


def share_of_roof(record: CellRecord) -> str:
    """Return how much of what the phone's memory allows decoding reached, or why that is not known."""
    ratio, bandwidth = (value_at(record, "metrics", name) for name in ("roofline_ratio", "bandwidth_gb_per_s"))
    if ratio is None:
        return f"share of the memory's limit not known: {why_unknown(record, 'metrics', 'roofline_ratio')}"
    of = f" ({number(bandwidth)} GB/s)" if bandwidth is not None else ""
    return f"{ratio * 100:.0f} % of the memory's limit{of}"
