"""Memory of one phone: what ``/proc/meminfo`` says while its processes hold some, and what lmkd writes when it kills.

The processes' resident memory is taken from ``MemAvailable`` in full. It comes out of ``MemFree`` first, down to an
eighth, and out of the page cache after that, as a kernel under pressure does it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.virtual.profile import Memory

LMKD_PID = 479
"""The daemon's number in the log; no such process is there to be seen."""
FOREGROUND = 0
"""The ``oom_score_adj`` that lmkd gives what it kills: everything that runs counts as the app in front."""


def meminfo(memory: Memory, used_kb: int = 0) -> str:
    """Return the phone's ``/proc/meminfo``, always of the same length, while its processes hold ``used_kb``."""
    spare_free = memory.free_kb - memory.free_kb // 8
    from_cache = max(0, used_kb - spare_free)
    cached = max(memory.cached_kb // 10, memory.cached_kb - from_cache)
    swapped = memory.swap_total_kb - memory.swap_free_kb
    anon = memory.total_kb // 4 + used_kb
    rows = {
        "MemTotal": memory.total_kb,
        "MemFree": max(memory.free_kb // 8, memory.free_kb - used_kb),
        "MemAvailable": max(0, memory.available_kb - used_kb),
        "Buffers": memory.cached_kb // 400,
        "Cached": cached,
        "SwapCached": swapped // 16,
        "Active": cached // 2 + anon // 2,
        "Inactive": cached // 3 + anon // 3,
        "SwapTotal": memory.swap_total_kb,
        "SwapFree": memory.swap_free_kb,
        "AnonPages": anon,
        "Mapped": memory.cached_kb // 5,
        "Shmem": memory.total_kb // 200,
        "Slab": memory.total_kb // 18,
        "KernelStack": memory.total_kb // 80,
        "CommitLimit": memory.total_kb // 2 + memory.swap_total_kb,
        "Committed_AS": memory.total_kb * 6,
    }
    return "".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in rows.items())


@dataclass(frozen=True)
class Holder:
    """A process and what it holds. ``pid`` is its number within the phone, sizes are in kB."""

    pid: int
    name: str
    rss_kb: int
    anon_kb: int
    swap_kb: int


@dataclass(frozen=True)
class KillReport:
    """What lmkd writes, and into which log buffer."""

    text: str
    buffer: str


def kill_report(victim: Holder, memory: Memory, sdk: int, uid: int) -> KillReport:
    """Return the log message of a kill, worded as on that Android.

    Before Android 9 the kernel killed and wrote into its own log, so its buffer is ``kernel``.
    """
    if sdk < 28:
        limit = memory.total_kb // 20
        return KillReport(
            f"Killing '{victim.name[:15]}' ({victim.pid}), adj {FOREGROUND},\n"
            f"   to free {victim.rss_kb}kB on behalf of 'kswapd0' (97) because\n"
            f"   cache {limit - limit // 9}kB is below limit {limit}kB for oom_score_adj {FOREGROUND}\n"
            f"   Free memory is {memory.free_kb // 8}kB above reserved",
            "kernel",
        )
    head = f"Kill '{victim.name}' ({victim.pid}), uid {uid}, oom_score_adj {FOREGROUND} to free {victim.rss_kb}kB rss"
    reason = "min watermark is breached even after kill"
    if sdk < 31:
        return KillReport(f"{head}, {victim.swap_kb}kb swap", "main")
    if sdk < 34:
        return KillReport(f"{head}, {victim.swap_kb}kB swap; reason: {reason}", "main")
    return KillReport(
        f"{head}, {victim.anon_kb}kB anon rss, {victim.swap_kb}kB swap, 0kB dmabuf_pss, 0kB dmabuf_rss;"
        f" reason: {reason}",
        "main",
    )
