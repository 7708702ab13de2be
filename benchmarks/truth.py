"""How true virtual phones, the probe and the synthetic runner are: ``make bench-truth``. JSON out."""

from __future__ import annotations

import json
import os
import platform
import sys

from benchmarks import heat, memory, overhead, runner, synthetic_timing

MEASURED = {
    "probe_beside_sleep": lambda: overhead.asleep().as_dict(),
    "stepping_against_engine_loop": runner.stepping,
    "synthetic_runner_timing_error": synthetic_timing.measure,
    "virtual_phone_heat": heat.measure,
    "virtual_phone_lmkd": memory.measure,
}


def main() -> int:
    """Measure all of it and print what came out."""
    results = {}
    for name, measure in MEASURED.items():
        sys.stderr.write(f"{name} …\n")
        results[name] = measure()
    host = {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    json.dump({"schema": 1, "host": host, "results": results}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
