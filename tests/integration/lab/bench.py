"""A bench to make trouble on: ``pytest --devices`` processes started from outside, and the phones seen past them.

The phones are virtual ones behind a real adb server, which outlive every run as real phones do; the runner is the
synthetic one, which takes the time that it is told and computes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.ordered import ordered_bundle
from harness.adb.transport import BASE_DIR, AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.provider import Endpoint
from harness.payload.models import find_model
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

DEADLINE_S = 120
# How long a lost phone is waited for: where it comes back, and where it does not.
PATIENCE_S, IMPATIENCE_S = 30.0, 1.0
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
cold_start = false
threads = [1, 2]
prompt_tokens = [16]
generate_tokens = [20]
warmups = 0
repeats = 1
[roofline]
measure = false
[prepare]  # few changes, since each is several commands
screen = "keep"
stay_awake = false
doze_off = false
animations_off = true
[recovery]
wait_s = {wait_s}
stall_s = {stall_s}
"""
CELLS = 2
# Half a second a cell, three seconds, half a minute: the longer ones are met in their middle.
BRISK = ("load_ms=100", "prefill_ms=50", "first_token_ms=1", "token_ms=15")
SLOW = ("load_ms=200", "prefill_ms=50", "first_token_ms=1", "token_ms=150")
LONG = ("load_ms=200", "prefill_ms=50", "first_token_ms=1", "token_ms=1500")


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what its folder holds then."""

    status: int
    text: str
    folder: RunFolder

    def of(self, phone: Endpoint) -> list[CellRecord]:
        """The attempts that count of a phone's cells, in the plan's order."""
        records = [record for record in self.folder.latest() if record.phone.name == phone.transport_serial]
        return sorted(records, key=lambda record: record.config.threads)

    def verdicts(self, phone: Endpoint) -> list[str]:
        """What became of a phone's cells, ``ok`` or the reason."""
        return [record.reason or record.verdict.value for record in self.of(phone)]

    def spans(self, phone: Endpoint) -> list[tuple[int, int]]:
        """When runs of ours were on the phone, by its own clock (ns) and its own log."""
        spans = []
        for record in self.of(phone):
            assert record.raw is not None
            lines = (self.folder.path / record.raw / "events.jsonl").read_bytes().splitlines()
            first, last = json.loads(lines[0]), json.loads(lines[-1])
            assert (first["ev"], last["ev"]) == ("start", "end")
            spans.append((first["mono_ns"], last["mono_ns"]))
        return spans


class Running:
    """A ``pytest --devices`` process in a session (and so a process group) of its own."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        self.folder = RunFolder(folder)
        self.process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The controlling process."""
        return self.process.pid

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until something is so; fails when the run ends before."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, f"the run ended before {what}: {self.process.communicate()[0]}"
            assert time.monotonic() < end, f"{what} did not come within {DEADLINE_S} s"
            time.sleep(0.01)

    def wait_until_measuring(self, number: int = 1) -> None:
        """Wait until so many runs of this process stand in their middle, told by what the phones sent of them."""
        self.wait_for(f"{number} cells in their middle", lambda: len(self.in_their_middle()) >= number)

    def in_their_middle(self) -> list[Path]:
        """Files of events that are being written, of runs that have loaded their model."""
        done = {self.folder.path / record.raw for record in self.folder.records() if record.raw is not None}
        files = [file for file in self.folder.path.glob("raw/*/*/events.jsonl") if file.parent not in done]
        return [file for file in files if b"sample" in file.read_bytes()]

    def worker_of(self, file: Path) -> psutil.Process:
        """The worker process that writes this file."""
        for child in psutil.Process(self.pid).children(recursive=True):
            if any(Path(opened.path) == file for opened in child.open_files()):
                return child
        raise AssertionError(f"nobody writes {file}")

    def ended(self) -> Outcome:
        """Wait for the end."""
        try:
            text, _ = self.process.communicate(timeout=DEADLINE_S)
        finally:
            self.process.kill()
        assert "Traceback" not in text, text
        assert "INTERNALERROR" not in text, text
        return Outcome(self.process.returncode, text, self.folder)

    def kill(self) -> None:
        """As ``kill -9`` and the computer's own memory killer do."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


class Bench:
    """Starts runs, and looks at phones past them."""

    def __init__(self, phones: list[Endpoint], cache: Path, files: Path) -> None:
        self.phones = phones
        self.files = files
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
        env |= {"MNN_FARM_CACHE": str(cache), "MNN_FARM_STATE": str(cache / "state")}
        self.env = {**env, "ANDROID_ADB_SERVER_PORT": str(phones[0].adb_port), "COLUMNS": "200", "CI": "true"}
        self.settings = [self.settings_of(phone) for phone in phones]

    def plan(self, wait_s: float = PATIENCE_S) -> Path:
        """The plan, with this patience for lost phones."""
        file = self.files / f"plan-{wait_s:g}.toml"
        file.write_text(PLAN.format(wait_s=wait_s, stall_s=5.0 if wait_s > IMPATIENCE_S else 1.0))
        return file

    def bundle(self, orders: tuple[str, ...]) -> Path:
        """The synthetic runner with these orders."""
        target = self.files / f"bundle-{abs(hash(orders))}"
        if not target.exists():
            ordered_bundle(target, orders)
        return target

    def unseen_model(self, name: str, extra_bytes: int) -> Path:
        """A model that no phone has yet: it must be pushed."""
        target = self.files / name
        shutil.copytree(find_model("tiny-llama"), target)
        (target / "extra.bin").write_bytes(os.urandom(extra_bytes))
        return target

    def start(
        self,
        folder: Path,
        *words: str,
        devices: str = "all",
        orders: tuple[str, ...] = BRISK,
        wait_s: float = PATIENCE_S,
        env: dict[str, str] | None = None,
    ) -> Running:
        """Start a run, or with ``--resume`` go on with one."""
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", devices]
        new = [] if "--resume" in words else ["--plan", str(self.plan(wait_s)), "--bundle", str(self.bundle(orders))]
        return Running([*argv, "--run-dir", str(folder), *new, *words], {**self.env, **(env or {})}, folder)

    def run(self, folder: Path, *words: str, **how: object) -> Outcome:
        """Run to the end."""
        return self.start(folder, *words, **how).ended()  # type: ignore[arg-type]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``mnn-farm`` to its end."""
        argv = [sys.executable, "-m", "harness.cli", *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def ours_on(self, phone: Endpoint) -> list[str]:
        """What of ours runs on a phone, the keeper of a lease included."""
        transport = AdbTransport(phone)
        transport.state()  # it may have a new number
        argv = ["ps", "-A", "-o", "PID,ARGS"]
        listed = transport.shell(argv, deadline=Deadline(20, "a look", phone.name)).stdout
        return [line for line in listed.decode("utf-8", "replace").splitlines() if BASE_DIR in line]

    def runners_on(self, phone: Endpoint) -> set[str]:
        """The runners on a phone, by their process number."""
        found = [line.split(maxsplit=1) for line in self.ours_on(phone)]
        return {pid for pid, argv in found if argv.startswith("synthetic ")}

    def settings_of(self, phone: Endpoint) -> str:
        """The settings of a phone that runs change."""
        script = "for n in global system secure; do settings list $n; done; dumpsys deviceidle enabled deep"
        transport = AdbTransport(phone)
        transport.state()
        said = transport.shell(["sh", "-c", script], deadline=Deadline(20, "a look", phone.name)).stdout
        return said.decode("utf-8", "replace")

    def assert_as_found(self) -> None:
        """Nothing of ours runs on any phone, no lease is held, and all settings are as before."""
        left = {phone.name: self.ours_on(phone) for phone in self.phones}
        assert not any(left.values()), f"these still run: {left}"
        assert [self.settings_of(phone) for phone in self.phones] == self.settings, "settings were not put back"

    @contextmanager
    def never_two_runners(self) -> Iterator[None]:
        """Look at the phones all the time: no phone may ever have two runners."""
        over, most = threading.Event(), dict.fromkeys((phone.name for phone in self.phones), 0)

        def look() -> None:
            while not over.wait(0.05):
                for phone in self.phones:
                    try:
                        most[phone.name] = max(most[phone.name], len(self.runners_on(phone)))
                    except PhoneError:
                        continue  # a phone that is lost has its own test

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        assert most == dict.fromkeys(most, 1), f"so many runners were on the phones at once: {most}"
