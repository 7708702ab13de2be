"""What ends a run besides its own end and its deadline: silence, and heat."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.payload.probe_events import End, RunLog, Trip

RunProbe = Callable[..., RunLog]


def ended(log: RunLog) -> End:
    assert log.end is not None
    return log.end


def test_silence_ends_a_run(run_probe: RunProbe) -> None:
    log = run_probe("sh", "-c", "echo a; exec sleep 60", options=("--silence-ms", "150"))
    assert (ended(log).why, ended(log).exit_code) == ("silence", None)
    assert log.stdout == b"a\n"
    assert log.start is not None
    assert log.start.silence_ms == 150
    quiet_ns = ended(log).mono_ns - log.outputs[-1].mono_ns
    assert quiet_ns >= 150_000_000


def test_a_run_that_goes_on_speaking_on_either_stream_is_left_alone(run_probe: RunProbe) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.1; echo $i; sleep 0.1; echo $i >&2; done"
    log = run_probe("sh", "-c", script, options=("--silence-ms", "1000"))
    assert (ended(log).why, ended(log).exit_code) == ("exit", 0)


def test_silence_from_the_very_start_counts(run_probe: RunProbe) -> None:
    assert ended(run_probe("sleep", "60", options=("--silence-ms", "100"))).why == "silence"


@pytest.mark.parametrize("pattern", ["cpu-0-0", "cpu-[0-9]-.*", "skin|cpu.*"])
def test_a_zone_that_is_too_hot_ends_the_run(run_probe: RunProbe, sensor_tree: Path, pattern: str) -> None:
    options = ("--sysfs", str(sensor_tree), "--trip-milli-c", f"{pattern}=-40000")
    end = ended(run_probe("sleep", "60", options=options))
    assert end.why == "trip"
    assert end.trip == Trip(zone=0, type="cpu-0-0", milli_c=-40_000)


def test_heat_that_comes_during_the_run_is_seen_although_samples_are_rare(
    probe: Path, tmp_path: Path, sensor_tree: Path
) -> None:
    zone = sensor_tree / "class/thermal/thermal_zone7/temp"
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--interval-ms", "600000", "--sysfs", str(sensor_tree)]
    argv += ["--trip-milli-c", "skin=45", "--deadline-ms", "20000", "--", "sleep", "60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while b'"sample"' not in process.stdout.readline():
            pass
        with zone.open("r+") as file:  # in place, as the kernel does
            file.write("46\n")
        process.stdout.read()
    end = ended(RunLog.read((tmp_path / "run" / "events.jsonl").read_bytes()))
    assert (end.why, end.trip) == ("trip", Trip(zone=7, type="skin", milli_c=46))


def test_a_zone_below_its_limit_lets_the_run_go_on(run_probe: RunProbe, sensor_tree: Path) -> None:
    options = ("--sysfs", str(sensor_tree), "--trip-milli-c", "skin=45", "--trip-milli-c", "cpu-0-0=0")
    end = ended(run_probe("true", options=options))
    assert (end.why, end.exit_code, end.trip) == ("exit", 0, None)


@pytest.mark.parametrize(
    ("value", "status", "said"),
    [
        ("gpu=45", 1, "no readable thermal zone is called gpu"),
        ("cpu=45", 1, "no readable thermal zone is called cpu"),
        ("skin", 2, "--trip-milli-c takes ZONE_TYPE=VALUE"),
        ("skin=hot", 2, "--trip-milli-c takes ZONE_TYPE=VALUE"),
        ("sk(in=4", 2, "is no regular expression"),
    ],
)
def test_a_protection_that_cannot_work_is_refused_before_anything_runs(
    probe: Path, tmp_path: Path, sensor_tree: Path, value: str, status: int, said: str
) -> None:
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--sysfs", str(sensor_tree), "--trip-milli-c", value]
    done = subprocess.run([*argv, "--", "touch", str(tmp_path / "ran")], capture_output=True, timeout=10)
    assert (done.returncode, done.stdout) == (status, b"")
    assert said in done.stderr.decode()
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "run").exists()
