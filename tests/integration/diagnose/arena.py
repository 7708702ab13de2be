"""What tests of the ladder share: programs and bundles with faults, and a diagnosis without the command line."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from harness.adb.server import AdbServer
from harness.core.provider import Endpoint
from harness.core.resources import data_root
from harness.diagnose.asked import Request, Sizes, choose_bundles
from harness.diagnose.ladder import Diagnosis, Watch, diagnose
from harness.payload.bundle import default_bundle
from harness.payload.models import find_model

X86_64, ARM64 = 62, 183
#: What no CPU of that kind runs: ``ud2``; ``udf``.
ILLEGAL = {X86_64: b"\x0f\x0b", ARM64: bytes(4)}
_BASE = 0x400000
#: Small, so that a whole climb takes seconds.
SIZES = Sizes(generate_tokens=16, long_prompt=64, sustain_s=2.0, patience_s=20.0, workaround_s=60.0)
FAST = ("load_ms=5", "prefill_ms=5", "first_token_ms=1", "token_ms=2")


def program(machine: int, code: bytes) -> bytes:
    """A static program of one segment that does nothing but this code."""
    start = 64 + 56
    size = start + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, _BASE + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000) + code


def bundle_of(folder: Path, files: dict[str, bytes], abis: tuple[str, ...] = ("x86_64",), **more: Any) -> Path:
    """A bundle of these files, the first of which is its farm_runner."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    values = {"schema": 1, "name": folder.name, "runner": "farm_runner", "backends": ["cpu"], **more}
    values |= {"abis": list(abis), "program": next(iter(files)), "files": list(files)}
    (folder / "bundle.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return folder


def synthetic(folder: Path, *orders: str, backends: tuple[str, ...] = ("cpu",)) -> Path:
    """The synthetic runner with these orders, offering these backends."""
    shutil.copytree(data_root() / "device_bins" / "runner" / "synthetic", folder)
    manifest = folder / "bundle.toml"
    words = [word for order in (*FAST, *orders) for word in ("--synthetic", order)]
    text = manifest.read_text().replace("extra_args = []", f"extra_args = {json.dumps(words)}")
    manifest.write_text(text.replace('["cpu", "opencl", "vulkan"]', json.dumps(list(backends))))
    return folder


def lacking_a_library() -> bytes:
    """A program of this PC that wants a library which is nowhere."""
    program = Path("/bin/true").resolve().read_bytes()
    if b"libc.so.6" not in program:
        pytest.skip("/bin/true of this computer is not linked with glibc")
    return program.replace(b"libc.so.6", b"libQ.so.6")


#: Our runner over the real engine, led astray where a condition on its options holds.
_BENT = """
import os, runpy, sys
options = dict(zip(sys.argv[1:], sys.argv[2:]))
threads, prompt = int(options.get("--threads", 0)), int(options.get("--prompt-tokens", 0))
precision, backend = options.get("--precision"), options.get("--backend")
if {when}:
    at = sys.argv.index("--prompt-text") + 1
    {what}
sys.argv[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "farm_runner.py")
runpy.run_path(sys.argv[0], run_name="__main__")
"""
#: Another prompt gives another text than the reference has.
WRONG_TEXT = 'sys.argv[at] = "Some other text that nobody asked for, and so on without an end. " * 20'
CRASH = "os.kill(os.getpid(), 11)"


def bent(folder: Path, when: str, what: str) -> Path:
    """The bundle with the real engine, that does ``what`` ``when`` its options are so."""
    runner = default_bundle().folder
    files = {"bent.py": _BENT.format(when=when, what=what).encode()}
    files |= {file.path: (runner.root / file.path).read_bytes() for file in runner.files}
    return bundle_of(folder, files, (), needs_python_mnn=True)


_TOOLS = """
schema = 1
name = "tools"
runner = "llm_bench"
engine_version = "3.6.1"
backends = ["cpu"]
[programs]
llm_bench = "llm_bench"
llm_demo = "llm_demo"
[[variants]]
abi = "x86_64"
files = ["llm_bench", "llm_demo", "faults.json"]
backends = ["cpu"]
"""
_FAKE_TOOL = Path(__file__).parents[2] / "data" / "fake_mnn" / "tool.py"


def mnn_tools(folder: Path) -> Path:
    """A bundle of stand-ins for MNN's own tools."""
    folder.mkdir()
    for name in ("llm_bench", "llm_demo"):
        shutil.copy(_FAKE_TOOL, folder / name)
    told = {"pieces": [" a", " phone", " lay", " on", " it"] * 4, "answer": ["Paris"], "prompt_tokens": 4}
    (folder / "faults.json").write_text(json.dumps(told))
    (folder / "bundle.toml").write_text(_TOOLS)
    return folder


def model_copy(folder: Path, name: str = "tiny-llama") -> Path:
    """A model of one's own to break."""
    target = folder / name
    shutil.copytree(find_model(name), target)
    return target


def climb(
    endpoint: Endpoint, folder: Path, *, bundle: Path | None = None, watch: Watch | None = None, **asked: Any
) -> Diagnosis:
    """Diagnose a phone that is up."""
    word = None if bundle is None else str(bundle)
    bundles, problems = choose_bundles(word)
    values: dict[str, Any] = {"model": find_model("tiny-llama"), "model_name": "tiny-llama", "sizes": SIZES, **asked}
    request = Request(
        device=endpoint.transport_serial, bundles=bundles, bundle_word=word, bundle_problems=problems, **values
    )
    servers = [AdbServer(endpoint.adb_host, endpoint.adb_port)]
    return diagnose(request, "diagnose-test", folder / "run", ["a", "test"], watch or Watch(), servers)


def layer(found: Diagnosis) -> tuple[str, str] | None:
    """The rung that broke and by which reason; ``None`` when all hold."""
    if found.broken is None:
        return None
    rung, outcome = found.broken
    assert outcome.reason is not None
    return rung.name, outcome.reason.code
