"""Heat of a virtual phone, measured from inside it, against the model: when it throttles and by how much.

A single-threaded synthetic load burns a fixed amount of processor time per token, so a throttled phone makes its
tokens longer. The phone is ``low-hot``, which shows in seconds what takes a phone minutes.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from typing import Any

from benchmarks.adb import provided
from benchmarks.onphone import run_synthetic
from harness.bench.phone import ConnectedPhone, connect
from harness.plan.tiers import load_tier_rules
from harness.runners.events import parse_runner_output
from harness.virtual.heat import seconds_to_trip
from harness.virtual.profile import load_profile

PROFILE = "low-hot"
TOKEN_MS = 10.0
TOKENS = 600
TARGET = 0.05
_COOL_S = 60.0


def measure() -> dict[str, Any]:
    """Return modelled and measured second of throttling and speed ratio, and the relative errors (target: 5 %)."""
    profile = load_profile(PROFILE)
    heat, fastest = profile.heat, profile.cpu.clusters[-1]
    with provided(PROFILE) as endpoint:
        phone = connect(endpoint, load_tier_rules())
        _wait_until_cool(phone)
        orders = (f"token_ms={TOKEN_MS}", "mode=work", "load_ms=0", "prefill_token_ms=0")
        run = run_synthetic(phone, orders, tokens=TOKENS)
    token_ms = parse_runner_output(run.stdout).of_kind("timed")[0].token_ms
    usual = statistics.median(token_ms[:50])
    ends_s = list(itertools.accumulate(value / 1000 for value in token_ms))
    # Throttled: this token and most of the next twenty take much longer than usual.
    onset = next(n for n in range(TOKENS) if statistics.median(token_ms[n : n + 20]) > 1.4 * usual)
    slowed = sum(token_ms[onset + 20 :]) / len(token_ms[onset + 20 :])
    # The governor caps to a clock that the chip has; the cycles that processes get follow that clock.
    modelled_s, modelled_ratio = seconds_to_trip(heat, 1.0), fastest.allowed_khz(heat.caps[1]) / fastest.max_khz
    measured_s, measured_ratio = ends_s[onset], usual / slowed
    return {
        "modelled_onset_s": modelled_s,
        "measured_onset_s": measured_s,
        "onset_error": measured_s / modelled_s - 1,
        "modelled_ratio": modelled_ratio,
        "measured_ratio": measured_ratio,
        "ratio_error": measured_ratio / modelled_ratio - 1,
        "target_error": TARGET,
    }


def _wait_until_cool(phone: ConnectedPhone) -> None:
    """Connecting has warmed the phone; wait until its hottest zone no longer falls."""
    end, before = time.monotonic() + _COOL_S, float("inf")
    while time.monotonic() < end:
        now = max(zone.milli_c or 0 for zone in phone.probe.facts().zones if "cpu" in (zone.type or ""))
        if now >= before:
            return
        before = now
        time.sleep(2.0)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))  # noqa: T201
