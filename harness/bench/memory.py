"""Memory over a run, as it goes into its record. The peak is the kernel's own, the rest was sampled."""

from __future__ import annotations

from harness.bench.evidence import Evidence, explain


def memory_of(evidence: Evidence, nulls: dict[str, str]) -> dict[str, int | None]:
    """Return the fields of :class:`~harness.store.schema.Metrics` about memory; reasons for nulls go to ``nulls``."""
    run = evidence.run
    told = {
        "peak_rss_bytes": run.end.maxrss_bytes if run.end is not None else None,
        "peak_anon_bytes": run.peak("anon_bytes"),
        "peak_swap_bytes": run.peak("swap_bytes"),
        "min_available_bytes": run.min_available_bytes,
    }
    for name, value in told.items():
        explain(nulls, value is None, name, "the phone's /proc did not tell")
    return {**told, "peak_gpu_bytes": None}
