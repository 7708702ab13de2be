"""How far the figures of a record are from the known truth, through the whole chain: ``make bench-accuracy``.

A session on virtual phones, with the synthetic runner as its bundle; records are read back from ``results.jsonl``.
Prints one JSON document: what was ordered, what was measured, the error and its bound, for each figure; the exit status
is 1 when a bound is missed. To be run on an idle computer: a busy one makes every time longer.

The moment of throttling is compared with the heat model under the load that the probe saw, since a computer that gives
a phone less than a whole core heats it more slowly; ``modelled_idle_s`` is the model's moment on an idle computer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.adb import provided
from benchmarks.known import CellRunner, Measured, plan_of
from harness.bench.phone import connect
from harness.plan.model import Plan
from harness.plan.tiers import load_tier_rules
from harness.store.schema import Metrics, Thermal
from harness.virtual.heat import seconds_to_trip
from harness.virtual.profile import load_profile

MIB = 1 << 20
SOAK = "mid-soak"
SOAK_S = 110.0
STEADY_RUNS = 100
STEADY_S = 1.6
REPEATS, TOKENS = 5, 48
WAIT = ("load_ms=5",)


@dataclass(frozen=True)
class Check:
    """One figure: ``bound`` is for ``error``, the distance of what was measured from what was ordered."""

    name: str
    unit: str
    ordered: float
    measured: float | None
    error: float | None
    bound: float

    @property
    def holds(self) -> bool:
        """Whether it is near enough; what was not measured is not."""
        return self.error is not None and self.error <= self.bound


def check(
    name: str, unit: str, ordered: float, measured: float | None, *, within: float = 0.0, share: float = 0.0
) -> Check:
    """Compare: the bound is the larger of ``within`` (in the unit) and that share of what was ordered."""
    error = None if measured is None else abs(measured - ordered)
    return Check(name, unit, ordered, measured, error, max(within, share * abs(ordered)))


def main() -> int:
    """Measure everything, or the parts that are named, and print what came out."""
    checks: list[Check] = []
    extra: dict[str, Any] = {}
    wanted = sys.argv[1:] or list(PARTS)
    for title, part in ((name, PARTS[name]) for name in wanted):
        sys.stderr.write(f"{title} …\n")
        checks += part(extra)
    missed = [one.name for one in checks if not one.holds]
    told = [{**asdict(one), "holds": one.holds} for one in checks]
    json.dump({"schema": 1, "holds": not missed, "missed": missed, "checks": told, **extra}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if missed else 0


@contextmanager
def runner_on(profile: str) -> Iterator[CellRunner]:
    """Provide a virtual phone and run cells on it."""
    with provided(profile) as endpoint, tempfile.TemporaryDirectory() as folder:
        yield CellRunner(connect(endpoint, load_tier_rules()), Path(folder))


def metrics(measured: Measured) -> Metrics:
    """Return the metrics of a cell that is ``ok``."""
    if measured.record.metrics is None or measured.record.reason is not None:
        raise RuntimeError(f"the cell was refused: {measured.record.reason}: {measured.record.detail}")
    return measured.record.metrics


def thermal(measured: Measured) -> Thermal:
    """Return the thermal section of a cell that is ``ok``."""
    metrics(measured)
    assert measured.record.thermal is not None  # noqa: S101  it ran
    return measured.record.thermal


def times(_extra: dict[str, Any]) -> Iterator[Check]:
    """Phones of three speeds: TTFT, decode speed and the 99th percentile between tokens."""
    with runner_on("high") as runner:
        for name, prefill_ms, token_ms in (("fast", 40, 6), ("usual", 300, 25), ("slow", 900, 70)):
            orders = (*WAIT, f"prefill_ms={prefill_ms}", f"first_token_ms={token_ms}", f"token_ms={token_ms}")
            plan = plan_of(repeats=REPEATS, generate_tokens=[TOKENS], warmups=1)
            seen = metrics(runner.measure(orders, plan))
            ttft_ms = prefill_ms + token_ms
            ttft, decode, tokens = seen.ttft_ms, seen.decode_tps, seen.token_ms
            yield check(f"ttft_{name}", "ms", ttft_ms, ttft and ttft.p50, within=2.0, share=0.01)
            yield check(f"decode_{name}", "tok/s", 1000 / token_ms, decode and decode.median, share=0.01)
            yield check(f"inter_token_p99_{name}", "ms", token_ms, tokens and tokens.p99, within=2.0)
        # Every second generation is slower by a fifth: the percentile is one of those.
        orders = (*WAIT, "prefill_ms=20", "token_ms=10", "noise=0.2")
        seen = metrics(runner.measure(orders, plan_of(repeats=6, generate_tokens=[TOKENS])))
        p99 = seen.token_ms.p99 if seen.token_ms is not None else None
        yield check("inter_token_p99_spread", "ms", 12.0, p99, within=2.0)


def memory(_extra: dict[str, Any]) -> Iterator[Check]:
    """Peak memory of three sizes, and of a leak."""
    with runner_on("high") as runner:
        for ordered_mib, leak_mib in ((64, 0), (256, 0), (640, 0), (64, 16)):
            orders = (*WAIT, "prefill_ms=5", f"peak_mb={ordered_mib}", f"leak_mb_per_gen={leak_mib}")
            seen = metrics(runner.measure(orders, plan_of(repeats=3, generate_tokens=[20])))
            wanted = (ordered_mib + 3 * leak_mib) * MIB
            name = f"peak_rss_{ordered_mib}" + (f"_leaking_{leak_mib}" if leak_mib else "")
            yield check(name, "bytes", wanted, seen.peak_rss_bytes, within=MIB, share=0.01)


def soak(extra: dict[str, Any]) -> Iterator[Check]:
    """A phone that throttles after a minute of one busy core."""
    profile = load_profile(SOAK)
    token_ms = 10.0
    with runner_on(SOAK) as runner:
        orders = ("load_ms=0", "prefill_ms=5", f"token_ms={token_ms}", "mode=work")
        measured = runner.measure(orders, soak_plan(SOAK_S, below_c=31.2))
    seen, truth, fastest = thermal(measured), measured.heat(profile, token_ms), profile.cpu.clusters[-1]
    extra["soak"] = {
        "onset_on_an_idle_computer_s": seconds_to_trip(profile.heat, 1.0),
        "clock_ratio": fastest.allowed_khz(profile.heat.caps[1]) / fastest.max_khz,
        "sustained_ratio": seen.sustained_ratio,
        "judged_by": seen.judged_by,
    }
    yield check("throttle_onset", "s", truth.onset_s, seen.onset_s, within=1.0)
    yield check("burst", "tok/s", truth.burst_tps, seen.burst_tps, share=0.05)
    yield check("sustained", "tok/s", truth.sustained_tps, seen.sustained_tps, share=0.05)
    ratio = truth.sustained_tps / truth.burst_tps
    yield check("sustained_ratio", "", ratio, seen.sustained_ratio, share=0.05)


def soak_plan(duration_s: float, *, below_c: float | None = None) -> Plan:
    """Return the plan of a short soak, which begins when the phone is cool."""
    cool = None if below_c is None else {"below_c": below_c, "timeout_s": 120.0}
    return plan_of(kind="sustained", duration_s=duration_s, generate_tokens=[TOKENS], cool=cool)


def slower(extra: dict[str, Any]) -> Iterator[Check]:
    """Speed falls by order: throttling where no sensor can be read, something else where clocks are steady."""
    after_s, factor = 12.0, 1.5
    orders = (*WAIT, "prefill_ms=5", "token_ms=10", f"slow_after_s={after_s}", f"slow_factor={factor}")
    with runner_on("denied") as runner:
        blind = runner.measure(orders, soak_plan(20.0))
    seen = thermal(blind)
    yield check("speed_alone_onset", "s", after_s + blind.hello_s, seen.onset_s, within=1.0)
    yield check("speed_alone_ratio", "", 1 / factor, seen.sustained_ratio, share=0.05)
    with runner_on("high") as runner:
        other = thermal(runner.measure(orders, soak_plan(20.0)))
    yield check("slower_with_steady_clocks_is_no_throttling", "alarms", 0, int(bool(other.throttled)))
    extra["slower"] = {"blind": seen.judged_by, "seeing": other.judged_by}


def steady(_extra: dict[str, Any]) -> Iterator[Check]:
    """Runs that spread by some percent and do not throttle, on a phone with sensors and on one without."""
    orders = (*WAIT, "prefill_ms=5", "token_ms=8", "noise=0.06")
    for profile in ("high", "denied"):
        alarms = 0
        with runner_on(profile) as runner:
            for number in range(STEADY_RUNS // 2):
                sys.stderr.write(f"\r{profile} {number + 1} of {STEADY_RUNS // 2}")
                alarms += bool(thermal(runner.measure(orders, soak_plan(STEADY_S))).throttled)
        sys.stderr.write("\n")
        yield check(f"false_alarms_in_{STEADY_RUNS // 2}_steady_runs_{profile}", "alarms", 0, alarms)


PARTS: dict[str, Callable[[dict[str, Any]], Iterator[Check]]] = {
    "times": times,
    "memory": memory,
    "soak": soak,
    "slower": slower,
    "steady": steady,
}


if __name__ == "__main__":
    sys.exit(main())
