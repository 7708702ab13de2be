"""What programs cost to start: the command line, a plan on eight phones, a report; and how much memory a run takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.adb import provided_phones
from benchmarks.beside import OURS, Compared, Way, side_by_side
from benchmarks.known import runners
from benchmarks.made_up_run import write_run
from benchmarks.peers import ADB, ADBUTILS, MOBLY, Peers
from benchmarks.process_memory import pss_of
from harness.core.provider import Endpoint

ROUNDS = 15
DRY_RUNS = 5
REPORTS = 3
REPORT_CELLS, REPORT_PHONES = 1_000, 20
PHONES = 8
MEMORY_PHONES = 2
_LOOK_EVERY_S = 0.05
_NO_PLAN = "it has no plan of cells"
_NO_REPORT = "it has no report"
_PLAN = """schema = 1
kind = "burst"
models = ["tiny-llama"]
backends = ["cpu"]
threads = [1, 2]
prompt_tokens = [8]
generate_tokens = [32]
cold_start = false
[reference]
policy = "off"
[roofline]
measure = false
"""
_ADBUTILS_MEMORY = "import adbutils; adbutils.AdbClient(port=int(sys.argv[1])).device(sys.argv[2]).shell('true')"
_MOBLY_MEMORY = (
    "from mobly.controllers import android_device; from mobly.controllers.android_device_lib import adb; "
    "adb.ADB = sys.argv[3]; android_device.AndroidDevice(sys.argv[2]).device_info"
)


def environment() -> dict[str, str]:
    """Return the environment of a user: Python keeps what it compiled."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def starts(peers: Peers) -> Iterator[Compared]:
    """Measure the command line's help, and a report of a made-up run."""
    program = str(Path(sys.executable).with_name("mnn-farm"))
    words = {OURS: [program, "--help"], ADB: [peers.adb[0], "help"], ADBUTILS: [sys.executable, "-m", "adbutils", "-h"]}
    cannot = dict(peers.cannot)
    if MOBLY not in cannot:
        words[MOBLY] = [sys.executable, "-c", "import mobly.controllers.android_device"]
    ways: dict[str, Way] = {name: partial(_run, argv) for name, argv in words.items()}
    yield side_by_side("start: --help", ways, ROUNDS, cannot=cannot)
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", REPORT_CELLS, REPORT_PHONES)
        report: dict[str, Way] = {OURS: partial(_run, [program, "report", str(Path(folder) / "run")])}
        no = dict.fromkeys((ADB, ADBUTILS, MOBLY), _NO_REPORT)
        yield side_by_side(f"report of {REPORT_CELLS} cells", report, REPORTS, cannot=no)


def dry_run() -> Compared:
    """Measure ``pytest --devices all --dry-run-plan`` where eight phones are up."""
    with provided_phones(str(PHONES)) as endpoints:
        argv = [*_pytest(endpoints[0]), "--plan=smoke", "--dry-run-plan"]
        ways: dict[str, Way] = {OURS: partial(_run, argv)}
        no = dict.fromkeys((ADB, ADBUTILS, MOBLY), _NO_PLAN)
        return side_by_side(f"start: --dry-run-plan, {PHONES} phones", ways, DRY_RUNS, cannot=no)


def memory(endpoint: Endpoint, peers: Peers) -> dict[str, Any]:
    """Return the most memory (PSS, in MB) that controller and workers of a run took, and that peers take."""
    taken: dict[str, Any] = {}
    with provided_phones(str(MEMORY_PHONES)) as endpoints, tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.toml"
        plan.write_text(_PLAN)
        argv = [*_pytest(endpoints[0]), f"--plan={plan}", f"--bundle={runners() / 'synthetic'}"]
        argv += [f"--run-dir={folder}/run", "--against=none"]
        taken["controller"], taken["worker"] = _peaks_mb(argv)
    told = {ADBUTILS: _ADBUTILS_MEMORY, MOBLY: _MOBLY_MEMORY}
    for name, code in told.items():
        if name not in peers.cannot:
            where = [str(endpoint.adb_port), endpoint.transport_serial, peers.adb[0]]
            script = f"import sys; {code}; import psutil; print(psutil.Process().memory_full_info().pss)"
            done = subprocess.run([sys.executable, "-c", script, *where], check=True, capture_output=True)
            taken[name] = round(int(done.stdout) / 1e6, 1)
    return {**taken, "cannot": {ADB: "its server stays, a command does not", **peers.cannot}}


def _pytest(endpoint: Endpoint) -> list[str]:
    server = f"--adb={endpoint.adb_host}:{endpoint.adb_port}"
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices=all", server]


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, env=environment(), check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")


def _peaks_mb(argv: list[str]) -> tuple[float, float]:
    """Run pytest; return the peaks of its controller and of its largest worker."""
    with tempfile.TemporaryFile() as output:
        process = psutil.Popen(argv, stdout=output, stderr=output, env=environment())
        controller = worker = 0
        while process.poll() is None:
            controller = max(controller, pss_of(process) or 0)
            worker = max([worker, *(pss_of(each) or 0 for each in _workers_of(process))])
            time.sleep(_LOOK_EVERY_S)
        if process.returncode or not worker:
            output.seek(0)
            said = output.read().decode(errors="replace")[-500:]
            raise RuntimeError(f"a run of {MEMORY_PHONES} phones ended with {process.returncode}: {said}")
    return round(controller / 1e6, 1), round(worker / 1e6, 1)


def _workers_of(controller: psutil.Process) -> list[psutil.Process]:
    """Return a controller's workers: what its fork server has made, not what stands in for them beside it."""
    try:
        servers = [child for child in controller.children() if "harness.plugin.forkserver" in child.cmdline()]
        return [worker for server in servers for worker in server.children()]
    except psutil.Error:
        return []  # one of them has ended
