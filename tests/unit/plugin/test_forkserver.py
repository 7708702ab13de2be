"""What execnet starts in a Python's place, and what becomes of it: as with a Python of its own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from harness.plugin.forkserver import ForkServer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are copies on Linux only")

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start a worker as execnet does, and let it run some source."""
    server = ForkServer()
    argv = [*shlex.split(server.spec.partition("python=")[2]), "-u", "-c", "what execnet says to a Python"]

    def run(source: str) -> subprocess.Popen[str]:
        worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdin is not None
        worker.stdin.write(f"{source!r}\n")
        worker.stdin.flush()
        return worker

    yield run
    server.stop()


def test_a_worker_has_all_imported_that_it_needs_and_pipes_of_its_own(start: Start) -> None:
    source = "import sys; print(sys.stdin.readline().strip(), {'harness.plugin.worker', 'numpy'} <= set(sys.modules))"
    workers = [start(source) for _ in range(3)]
    said = [worker.communicate(f"{number}\n")[0] for number, worker in enumerate(workers)]
    assert said == ["0 True\n", "1 True\n", "2 True\n"]
    assert [worker.returncode for worker in workers] == [0, 0, 0]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import os; os._exit(7)", 7),
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_how_a_worker_ends_is_told_as_if_it_were_its_own_process(start: Start, source: str, status: int) -> None:
    worker = start(source)
    assert (worker.communicate()[0], worker.returncode) == ("", status)


def test_who_ends_what_was_started_ends_the_worker(start: Start) -> None:
    worker = start("import os, signal; print(os.getpid(), flush=True); signal.pause()")
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    assert pid != worker.pid
    worker.terminate()
    assert worker.wait(30) == -signal.SIGTERM
    assert not psutil.pid_exists(pid)


def test_no_worker_outlives_the_server() -> None:
    server = ForkServer()
    argv = shlex.split(server.spec.partition("python=")[2])
    worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{'import os, signal; print(os.getpid(), flush=True); signal.pause()'!r}\n")
    worker.stdin.flush()
    process = psutil.Process(int(worker.stdout.readline()))
    server.stop()
    assert worker.wait(30) == 1
    process.wait(30)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
