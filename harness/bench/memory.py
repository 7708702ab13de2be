"""Memory over a run, as it goes into its record. The peak is the kernel's own, the rest was sampled or told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.bench.evidence import Evidence, Objection, explain
from harness.bench.moments import first_load_ns, timed_ends_ns, timed_span
from harness.bench.phone_log import Kill, killed_apps
from harness.bench.trend import clearly_grows, growth
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog
from harness.store.schema import Finding

# The part of a phone's memory below which it is scarce. MemAvailable counts file caches that can be dropped, so a phone
# that only caches much lies far above: one of 4 GB with its swap full still tells 17 %. lmkd begins to kill when free
# swap is below 10 %, at about the same part of what is available.
SCARCE_SHARE = 0.10
# So much of the run's own memory swapped out is more than what it never touches again.
_SWAPPED_SHARE = 0.05
_PAGE_BYTES = 4096
# Programs and libraries are read from storage too.
_OTHER_PAGES = 20_000
_APPS_NAMED = 8
_WORK = {False: "generations", True: "inferences"}


def memory_of(evidence: Evidence, nulls: dict[str, str]) -> dict[str, Any]:
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
    baseline = baseline_rss(evidence)
    explain(nulls, baseline is None, "baseline_rss_bytes", "nothing was sampled before the model was loaded")
    by_generation = growth(rss_after_generations(evidence))
    explain(
        nulls,
        by_generation is None,
        "growth_bytes",
        f"two timed {_WORK[evidence.cell.tensor]} of known memory are needed",
    )
    by_load = growth(rss_after_loads(evidence))
    explain(nulls, by_load is None, "reload_growth_bytes", "two loads of known memory are needed")
    kills = kills_meanwhile(evidence)
    explain(nulls, kills is None, "killed_apps", evidence.phone_log_gap)
    return {
        **told,
        "baseline_rss_bytes": baseline,
        "growth_bytes": by_generation,
        "reload_growth_bytes": by_load,
        "killed_apps": None if kills is None else len(kills),
        **_gpu(run, nulls),
    }


def _gpu(run: RunLog, nulls: dict[str, str]) -> dict[str, Any]:
    """Return the GPU's peak and the counter that told it."""
    counter = run.sensors.gpu_counter if run.sensors is not None else None
    peak = run.peak("gpu_bytes") if counter is not None else None
    if counter is None:
        refused = run.sensors.denied if run.sensors is not None else ()
        tried = [f"{one.path}: {one.errno}" for one in refused if _of_gpu(one.path)]
        why = "no readable counter on this phone" + (f" ({', '.join(tried)})" if tried else "")
        nulls["peak_gpu_bytes"] = nulls["gpu_counter"] = why
    else:
        nulls.pop("peak_gpu_bytes", None)
        explain(nulls, peak is None, "peak_gpu_bytes", f"{counter} told nothing during the run")
    return {"peak_gpu_bytes": peak, "gpu_counter": counter}


def _of_gpu(path: str) -> bool:
    return any(word in path for word in ("kgsl", "mali", "drm", "fdinfo", "dmabuf", "dri"))


def baseline_rss(evidence: Evidence) -> int | None:
    """Return what the runner held before it loaded the model the first time: as it told, else as last sampled."""
    loads = evidence.told.loads
    if loads and loads[0].rss_before_bytes is not None:
        return loads[0].rss_before_bytes
    begun_ns = first_load_ns(evidence)
    before = [s.rss_bytes for s in evidence.run.samples if begun_ns is not None and s.mono_ns <= begun_ns]
    return next((rss for rss in reversed(before) if rss), None)


def rss_after_generations(evidence: Evidence) -> list[int]:
    """Return what was held at the end of each timed generation or inference; empty when that is not known of each."""
    told = [one.rss_bytes for one in evidence.measured]
    if any(rss is None for rss in told):
        told = [_last_rss(evidence.run, ns) for ns in timed_ends_ns(evidence)]
    known = [rss for rss in told if rss is not None]
    return known if len(known) == len(told) else []


def _last_rss(run: RunLog, ns: int) -> int | None:
    return next((s.rss_bytes for s in reversed(run.samples) if s.mono_ns <= ns and s.rss_bytes), None)


def rss_after_loads(evidence: Evidence) -> list[int]:
    """Return what was held after each load of the model; empty when that is not known of each."""
    known = [load.rss_bytes for load in evidence.told.loads if load.rss_bytes is not None]
    return known if len(known) == len(evidence.told.loads) else []


def kills_meanwhile(evidence: Evidence) -> tuple[Kill, ...] | None:
    """Return the apps that the phone killed for memory during the run; ``None`` when its log cannot tell."""
    return None if evidence.phone_log_gap else killed_apps(evidence.phone_log, evidence.pids)


def memory_was_free(evidence: Evidence) -> Iterator[Objection]:
    """While generations were timed, the phone was not so short of memory that it had to take some from somebody.

    Little free memory alone says nothing, and neither do killed apps: phones fill their memory with caches, and make
    room for a large model by ending apps. Both together, or pages of the run itself that were swapped out or read again
    from storage, mean that the engine waited for memory. In a sustained cell that is the result.
    """
    if evidence.plan.kind == "sustained" or not evidence.ram_bytes:
        return
    span = timed_span(evidence)
    samples = span.samples(evidence.run) if span is not None else []
    free = [sample.mem_available_bytes for sample in samples if sample.mem_available_bytes is not None]
    if not free or min(free) >= SCARCE_SHARE * evidence.ram_bytes:
        return
    signs = list(_signs_of_pressure(evidence, samples))
    if signs:
        least = f"{min(free) >> 20} MiB of {evidence.ram_bytes >> 20} MiB"
        yield Objection(Reason.LOW_AVAILABLE_MEMORY, f"only {least} were available, and {', and '.join(signs)}")


def _signs_of_pressure(evidence: Evidence, samples: Sequence[Any]) -> Iterator[str]:
    kills = kills_meanwhile(evidence)
    if kills:
        yield f"the phone killed {_named(kills)}"
    peak = evidence.run.peak("rss_bytes") or 0
    swapped = max((sample.swap_bytes or 0 for sample in samples), default=0)
    if swapped > _SWAPPED_SHARE * peak > 0:
        yield f"{swapped >> 20} MiB of the runner were swapped out"
    end = evidence.run.end
    loads = max(1, len(evidence.told.loads))
    if end is not None and end.majflt is not None:
        once = loads * evidence.weight_bytes // _PAGE_BYTES + _OTHER_PAGES
        if end.majflt > once:
            yield f"{end.majflt} pages were read from storage, more than the weights have"


def remarks_on_memory(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is worth knowing beside the figures: memory that grows, and apps that were killed."""
    peak = evidence.run.end.maxrss_bytes if evidence.run.end is not None else None
    work = "inference" if evidence.cell.tensor else "generation"
    for what, sizes in ((work, rss_after_generations(evidence)), ("load", rss_after_loads(evidence))):
        slope = growth(sizes)
        if slope is not None and clearly_grows(sizes, peak):
            yield Finding(
                code="memory_growth",
                severity="warning",
                title=f"each {what} leaves {slope / 2**20:.2f} MiB more in memory, over {len(sizes)} of them",
                evidence=f"bytes after each: {', '.join(map(str, sizes))}"[:2000],
            )
    kills = kills_meanwhile(evidence)
    if kills:
        yield Finding(
            code="killed_apps",
            severity="warning",
            title=f"the phone killed for memory meanwhile: {_named(kills)}"[:500],
            evidence="\n".join(kill.line for kill in kills)[:2000],
        )


def _named(kills: Sequence[Kill]) -> str:
    names = [kill.name or f"process {kill.pid}" for kill in kills]
    more = f" and {len(names) - _APPS_NAMED} more" if len(names) > _APPS_NAMED else ""
    return ", ".join(names[:_APPS_NAMED]) + more
