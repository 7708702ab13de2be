"""Runs held against earlier ones, from outside: the synthetic runner on one virtual phone behind the real adb server.

adb lists the phone as it lists any other, so its speed is judged; the runner keeps to its orders whatever else this
computer does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from benchmarks.ordered import ordered_bundle
from harness.core.provider import Endpoint
from harness.store.runfolder import RunFolder

PHONES = ("high-opencl",)
DEADLINE_S = 120
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu", "opencl"]
cold_start = false
threads = [1]
prompt_tokens = [16]
generate_tokens = [12]
warmups = 0
repeats = 3
cv_limit = 0.5
[roofline]
measure = false
[reference]
policy = "off"
[prepare]
screen = "keep"
stay_awake = false
doze_off = false
animations_off = false
"""
KNOWN = """
[[known]]
ticket = "FARM-7"
expires = 2999-12-31
note = "the runner is ordered to crash"
reason = "crash"

[[known]]
ticket = "FARM-8"
expires = 2999-12-31
note = "nothing hangs here"
reason = "hang"
"""


@dataclass(frozen=True)
class Outcome:
    status: int
    text: str
    folder: Path

    @property
    def run_id(self) -> str:
        return RunFolder(self.folder).read_info().run_id

    @property
    def cases(self) -> dict[str, Xml.Element]:
        """JUnit's cases by backend."""
        root = Xml.parse(self.folder / "junit.xml").getroot()  # noqa: S314  our own
        return {"opencl" if "-opencl-" in case.get("name", "") else "cpu": case for case in root.iter("testcase")}

    @property
    def qa(self) -> list[str]:
        """What the terminal says from the headline on, up to pytest's own summary."""
        lines = self.text.splitlines()
        begin = next(n for n, line in enumerate(lines) if line.startswith(("GREEN", "RED", "NOTHING")))
        end = next(n for n, line in enumerate(lines) if n > begin and not line.startswith(" "))
        return lines[begin:end]


class Farm:
    """Starts ``pytest --devices all`` with a copy of the synthetic bundle under orders of its own."""

    def __init__(self, env: dict[str, str], root: Path) -> None:
        self.env, self.root = env, root
        (root / "plan.toml").write_text(PLAN)

    def run(self, name: str, bundle: str, *words: str) -> Outcome:
        folder = self.root / "runs" / name
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "all", *words]
        argv += ["--plan", str(self.root / "plan.toml"), "--bundle", str(self.root / bundle), "--run-dir", str(folder)]
        done = subprocess.run(
            argv, env=self.env, cwd=self.root, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        return Outcome(done.returncode, done.stdout + done.stderr, folder)

    def bundle(self, name: str, orders: Sequence[str], backends: Sequence[str] = ("cpu", "opencl")) -> None:
        ordered_bundle(self.root / name, orders, {"backends": list(backends)})


@pytest.fixture(scope="module")
def farm(virtual_phones: list[Endpoint], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Farm:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env |= {"MNN_FARM_CACHE": str(farm_cache), "ANDROID_ADB_SERVER_PORT": str(virtual_phones[0].adb_port)}
    made = Farm({**env, "COLUMNS": "200", "CI": "true"}, tmp_path_factory.mktemp("farm"))
    quick = ("load_ms=5", "prefill_ms=5", "first_token_ms=1")
    made.bundle("good", [*quick, "token_ms=4"])
    made.bundle("worse", [*quick, "token_ms=12"], backends=["cpu"])
    made.bundle("crashing", [*quick, "token_ms=4", "fault=SIGSEGV"])
    return made


@pytest.fixture(scope="module")
def first(farm: Farm) -> Outcome:
    return farm.run("first", "good")


def test_a_first_run_is_compared_with_nothing(first: Outcome) -> None:
    assert first.status == 0, first.text
    assert first.qa == ["GREEN: 2 of 2 cells ok"]


def test_the_same_again_is_green_beside_the_last_run(farm: Farm, first: Outcome) -> None:
    again = farm.run("again", "good")
    assert again.status == 0, again.text
    assert again.qa == [f"GREEN: 2 of 2 cells ok · against run {first.run_id}"]


def test_slower_and_no_longer_supported_are_red(farm: Farm, first: Outcome) -> None:
    worse = farm.run("worse", "worse", "--against", "first")
    assert worse.status == 1, worse.text
    assert worse.qa[0] == f"RED, at fault: the product (2 NEW) · against run {first.run_id}"
    slow, lost = (
        next(line for line in worse.qa if word in line) for word in ("CPU slower", "OpenCL backend_not_built")
    )
    assert slow.startswith("  NEW    the product: CPU slower, 1 cell on 1 phone (")
    assert "; decode " in slow
    assert "with another device binaries than then" in slow
    assert "was ok, is unsupported now" in lost
    assert "2 failed" in worse.text
    assert {name: case.find("failure") is not None for name, case in worse.cases.items()} == {
        "cpu": True,
        "opencl": True,
    }
    assert [record.verdict.value for record in RunFolder(worse.folder).latest()] == ["ok", "unsupported"]
    assert (worse.folder / "summary.md").read_text().startswith("### RED, at fault: the product (2 NEW)")
    assert 'id="news"' in (worse.folder / "report.html").read_text()


def test_known_failures_stay_red_and_say_their_ticket(farm: Farm, first: Outcome) -> None:
    (farm.root / "known.toml").write_text(KNOWN)
    known = farm.run("known", "crashing", "--against", str(first.folder), "--known", str(farm.root / "known.toml"))
    assert known.status == 1, known.text
    assert known.qa[0] == f"RED: 2 failed, all known (FARM-7) · against run {first.run_id}"
    assert "known issue matched nothing: FARM-8 (until 2999-12-31): nothing hangs here" in known.text
    states = {
        p.get("value") for case in known.cases.values() for p in case.iter("property") if p.get("name") == "state"
    }
    assert states == {"known"}
