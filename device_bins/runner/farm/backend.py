"""Which backend the engine really took, and what this process holds."""

from __future__ import annotations

import os
import platform
import struct
from pathlib import Path
from typing import Any

from farm.talk import EngineOutput

ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a", "arm64": "arm64-v8a", "armv7l": "armeabi-v7a", "i686": "x86"}
ABIS_32 = {"x86_64": "x86", "aarch64": "armeabi-v7a", "arm64": "armeabi-v7a", "armv8l": "armeabi-v7a"}
#: MNN's numbers for backends; 13 is the CPU backend with its half-precision or int8 extension.
BACKEND_CODES = {0: "cpu", 13: "cpu", 1: "metal", 2: "cuda", 3: "opencl", 5: "nnapi", 6: "opengl", 7: "vulkan"}
SESSION_INFO_BACKENDS = 2


def prove_backend(mnn: Any, asked: str, configured: str | None, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
    """Return which backend runs, in the engine's own words.

    A fallback is a line in its log. Otherwise it is asked: a one-operator session for the same backend in this
    process names the backend that the engine really made for it.
    """
    code = session_backend(mnn, asked, work_dir)
    answered = BACKEND_CODES.get(code, str(code))
    line = output.heard()["fallback"]
    if line:
        actual, strength, proof = "cpu" if answered == asked else answered, "log", line
    elif configured == asked:
        actual, strength = answered, "engine"
        proof = (
            f"asked for {asked}, configured {configured}; a session in this process runs on {answered} (code {code})"
        )
    else:
        actual, strength, proof = None, "none", f"asked for {asked}, but the engine's configuration says {configured}"
    return {"backend_requested": asked, "backend_actual": actual, "strength": strength, "proof": proof}


def session_backend(mnn: Any, backend: str, work_dir: Path) -> int:
    """Return MNN's number of the backend that a session for ``backend`` really gets."""
    path = work_dir / "farm_runner_backend.mnn"
    mnn.expr.save([mnn.expr.sqrt(mnn.expr.placeholder([1, 4]))], str(path))
    interpreter = mnn.Interpreter(str(path))
    session = interpreter.createSession({"backend": backend.upper(), "numThread": 1})
    code = int(interpreter.getSessionInfo(session, SESSION_INFO_BACKENDS))
    path.unlink()
    return code


def rss_bytes() -> int | None:
    """Return the memory this process holds now, ``None`` where ``/proc`` may not be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def cache_bytes(work_dir: Path) -> int:
    """Return the size of what the engine kept of its tuning (kernels, choices); 0 when there is nothing."""
    return sum(path.stat().st_size for path in work_dir.glob("mnn_cachefile.bin*"))


def abi() -> str:
    machine = platform.machine()
    if struct.calcsize("P") == 4:
        return ABIS_32.get(machine, ABIS.get(machine, machine))
    return ABIS.get(machine, machine)
