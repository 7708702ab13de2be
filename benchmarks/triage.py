"""How long ``mnn-farm triage`` takes for a phone's log of 200 MB, and how much memory. Exit 1 when a bound is missed.

The log is made up: what busy phones write (Wi-Fi, audio, garbage collection, denials of SELinux that mean nothing),
with one crash near its end. The command runs as a user would run it, in a process of its own.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZE_MB = 200
TARGET_S = 10.0
TARGET_MB = 300.0
_NOISE = (
    "I WifiHAL : In GetNetlinkMessage, id 0x{n:x} status 0",
    "E BufferQueueProducer: [SurfaceView] queueBuffer: fps=59.9 dur=1001.2 max=18.1 error {n}",
    "D audio_hw_primary: out_write: error -11 (Try again) frames {n}",
    "I app.example.news: Background concurrent copying GC freed {n}(3MB) AllocSpace objects, paused 112us total 88ms",
    'W Thread-{n}: type=1400 audit(0.0:{n}): avc: denied {{ getattr }} for path="/proc/{n}/stat"'
    " scontext=u:r:untrusted_app:s0 tcontext=u:r:init:s0 tclass=file permissive=0",
    "V PowerManagerService: userActivityNoUpdateLocked: eventTime={n}, event=0, flags=0x0, uid=1000",
    "W ResourceType: Failure getting entry for 0x7f0{n:x}: signal 9 not found in {n}",
    "I ActivityManager: Process com.example.cached{n} (pid {n}) has died: cch+{n} CEM",
    "D MNNJNI: prefill chunk {n}",
)
_CRASH = (
    "F DEBUG   : pid: 8123, tid: 8130, name: llm_demo  >>> ./llm_demo <<<",
    "F DEBUG   : signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000010",
    "F DEBUG   :       #00 pc 00000000004cf3f8  /data/local/tmp/q/libMNN.so (MNN::Session::resize()+24)",
)


def write_log(path: Path, size_mb: int) -> None:
    """Write a log of that size, with a crash among its last lines."""
    dice = random.Random(7)  # noqa: S311 (a made-up log is no secret)
    with path.open("w", encoding="utf-8") as log:
        count = 0
        while log.tell() < size_mb * 1_000_000:
            log.write("--------- beginning of main\n" if count % 20_000 == 0 else "")
            log.writelines(_line(dice.choice(_NOISE), dice.randrange(1, 30_000), count + more) for more in range(5000))
            count += 5000
        log.writelines(_line(text, 8200, count + more) for more, text in enumerate(_CRASH))


def _line(text: str, pid: int, count: int) -> str:
    clock = f"05-05 {count // 3_600_000 % 24:02}:{count // 60_000 % 60:02}:{count // 1000 % 60:02}.{count % 1000:03}"
    return f"{clock} {pid:5} {pid + 7:5} {text.format(n=pid)}\n"


def measure(size_mb: int = SIZE_MB) -> dict[str, Any]:
    """Return seconds and peak memory of one reading, and what was found first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logcat.txt"
        write_log(path, size_mb)
        begin = time.monotonic()
        command = [sys.executable, "-m", "harness.cli", "triage", str(path), "--json"]
        told = subprocess.run(command, capture_output=True, check=False, timeout=600).stdout
        took_s = time.monotonic() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    first = json.loads(told)["findings"][0]
    return {
        "size_mb": size_mb,
        "seconds": round(took_s, 2),
        "target_s": TARGET_S,
        "peak_mb": round(peak_mb, 1),
        "target_mb": TARGET_MB,
        "first_finding": first["code"],
        "ok": took_s <= TARGET_S and peak_mb <= TARGET_MB and first["code"] == "native_crash",
    }


if __name__ == "__main__":
    result = measure()
    print(json.dumps(result, indent=1))  # noqa: T201 (the benchmark's answer)
    sys.exit(not result["ok"])
