"""The runners that one suite holds to the same behaviour: the Python twin, the C++ one, and the core without an engine.

The C++ one is built against the SDK of MNN that the environment variable ``MNN_FARM_SDK`` names (and the headers in
``MNN_FARM_SDK_HEADERS``, when they lie elsewhere); without one it is left out, which one test tells by being skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.bundle_manifest import Target
from harness.payload.models_fetch import model_path
from harness.payload.sdk_build import build_runner

SDK = os.environ.get("MNN_FARM_SDK", "")
WITH_MNN = ["python", "cpp"] if SDK else ["python"]
RUNNERS = data_root() / "device_bins" / "runner"
#: The core looks at the model's files as it does before MNN loads them, and has ends to keep out.
LIKE_MNN = ("check_model=1", "stops=0,2", "load_ms=1", "prefill_ms=1", "first_token_ms=0.1", "token_ms=0.5")


@dataclass(frozen=True)
class Ran:
    exit_code: int
    events: list[dict[str, Any]]
    stdout: bytes
    stderr: str

    def of(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            found
            for found in self.events
            if found["event"] == event and all(found.get(key) == value for key, value in fields.items())
        ]


@dataclass(frozen=True)
class Runner:
    name: str
    argv: tuple[str, ...]

    def command(self, model: Path, work: Path, *options: str) -> list[str]:
        return [*self.argv, "--model", str(model), "--threads", "1", "--work-dir", str(work), *options]

    def run(self, model: Path, work: Path, *options: str) -> Ran:
        done = subprocess.run(self.command(model, work, *options), capture_output=True, timeout=60, check=False)
        events = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return Ran(done.returncode, events, done.stdout, done.stderr.decode())


def _twin() -> Runner:
    return Runner("farm_runner", (sys.executable, str(RUNNERS / "farm_runner.py")))


def _synthetic() -> Runner:
    payload = read_bundle(RUNNERS / "synthetic").payload(Target(("x86_64",)))
    orders = [word for order in LIKE_MNN for word in ("--synthetic", order)]
    return Runner("synthetic", (str(payload.root / payload.files[0].path), *orders))


@pytest.fixture(scope="session")
def _in_cpp(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    headers = os.environ.get("MNN_FARM_SDK_HEADERS")
    out = tmp_path_factory.mktemp("farm_runner")
    [folder] = build_runner(Path(SDK), None, out, lambda _: None, headers=Path(headers) if headers else None)
    return Runner("farm_runner", (str(folder / "farm_runner"),))


def _named(request: pytest.FixtureRequest) -> Runner:
    if request.param == "cpp":
        runner: Runner = request.getfixturevalue("_in_cpp")
        return runner
    return _twin() if request.param == "python" else _synthetic()


@pytest.fixture(scope="session", params=[*WITH_MNN, "synthetic"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Every runner there is."""
    return _named(request)


@pytest.fixture(scope="session", params=WITH_MNN)
def mnn_runner(request: pytest.FixtureRequest) -> Runner:
    """Those that run MNN."""
    return _named(request)


@pytest.fixture(scope="session")
def tiny() -> Path:
    path = model_path("tiny-llama")
    assert path is not None
    return path
