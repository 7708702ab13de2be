from __future__ import annotations

import json
from typing import Any

import pytest

from harness.payload.probe_events import Output, RunLog, Sample, Sensors, parse_event

STAMP = {"seq": 3, "mono_ns": 10, "boot_ns": 20}


def line(**fields: Any) -> bytes:
    return json.dumps({**STAMP, **fields}).encode() + b"\n"


def sample_line(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "processes": 1,
        "rss_bytes": 5,
        "anon_bytes": None,
        "swap_bytes": 0,
        "hwm_bytes": 6,
        "threads": 2,
        "utime_ms": 1,
        "stime_ms": 1,
        "mem_available_bytes": 100,
        "cur_khz": [1, None],
        "cap_khz": [2, 3],
        "milli_c": [41_000],
    }
    return line(ev="sample", **{**fields, **changes})


SENSORS = line(
    ev="sensors", cpus=[0, 4], zones=[{"zone": 2, "type": "cpu"}], denied=[{"path": "/p", "errno": "EACCES"}]
)


def test_output_comes_back_as_the_bytes_it_was() -> None:
    every = "".join(map(chr, range(256)))
    event = parse_event(line(ev="out", fd=2, data=every))
    assert event == Output(3, 10, 20, fd=2, data=bytes(range(256)))


def test_what_older_probes_did_not_tell_is_unknown() -> None:
    sensors, sample = parse_event(SENSORS), parse_event(sample_line())
    assert isinstance(sensors, Sensors)
    assert isinstance(sample, Sample)
    assert (sensors.gpu_counter, sample.gpu_bytes, sample.threads_allowed) == (None, None, None)


def test_gpu_memory_and_the_threads_cores_are_read() -> None:
    sensors = parse_event(SENSORS.replace(b'"cpus"', b'"gpu_counter": "kgsl", "cpus"'))
    assert isinstance(sensors, Sensors)
    assert sensors.gpu_counter == "kgsl"
    samples = [
        parse_event(sample_line(gpu_bytes=0, threads_allowed=["0", "4-7"])),
        parse_event(sample_line(gpu_bytes=None, threads_allowed=None)),
    ]
    assert [(s.gpu_bytes, s.threads_allowed) for s in samples if isinstance(s, Sample)] == [
        (0, ("0", "4-7")),
        (None, None),
    ]


def test_a_sample_keeps_unknown_apart_from_zero() -> None:
    event = parse_event(sample_line())
    assert isinstance(event, Sample)
    assert (event.anon_bytes, event.swap_bytes, event.cur_khz) == (None, 0, (1, None))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\n", "cannot be read"),
        (b"\xff\n", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"3\n", "is no JSON object"),
        (b"{}\n", "has no 'ev'"),
        (line(ev="party"), "unknown kind 'party'"),
        (line(ev=7), "'ev' of a probe event is not a string of bytes"),
        (line(ev="out", fd=3, data=""), "neither 1 nor 2"),
        (line(ev="out", fd=1, data="\u20ac"), "'data' of a probe event is not a string of bytes"),
        (sample_line(cur_khz=[1.5]), "'cur_khz' of a probe event is not a list of whole numbers and nulls"),
        (sample_line(threads=True), "'threads' of a probe event is not a whole number"),
        (sample_line(gpu_bytes="1"), "'gpu_bytes' of a probe event is not a whole number"),
        (sample_line(threads_allowed=[0]), "'threads_allowed' of a probe event is not a string of bytes"),
        (sample_line(seq=None), "'seq' of a probe event is not a whole number"),
    ],
)
def test_what_is_no_event_is_refused_with_a_sentence_that_names_it(text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_event(text)


def test_a_run_log_gathers_streams_extremes_and_forgives_a_torn_end() -> None:
    log = RunLog.read(
        SENSORS
        + line(ev="out", fd=1, data="a\r")
        + line(ev="out", fd=2, data="E")
        + line(ev="out", fd=1, data="\nb")
        + sample_line()
        + sample_line(mem_available_bytes=40, milli_c=[45_000], anon_bytes=9)
        + sample_line(mem_available_bytes=None, milli_c=[None])
        + b'{"ev":"end","se'
    )
    assert (log.stdout, log.stderr) == (b"a\r\nb", b"E")
    assert log.min_available_bytes == 40
    assert log.peak("anon_bytes") == 9
    assert log.max_milli_c() == {"cpu": 45_000}
    assert log.sensors is not None
    assert log.sensors.denied[0].errno == "EACCES"
    assert (log.start, log.end) == (None, None)
    assert log.torn == b'{"ev":"end","se'


def test_an_empty_log_knows_nothing() -> None:
    log = RunLog.read(b"")
    assert (log.min_available_bytes, log.peak("rss_bytes"), log.max_milli_c(), log.torn) == (None, None, {}, b"")


def test_a_broken_line_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        RunLog.read(b'{"ev":\n' + sample_line())
