from __future__ import annotations

import json
import math
from typing import Any

import pytest

from harness.runners.events import Inference, TensorFile, parse_runner_output

GENERATION: dict[str, Any] = {
    "event": "generation", "index": 0, "kind": "timed", "prompt_tokens": 8, "generated_tokens": 3, "prefill_ms": 4.0,
    "ttft_ms": 5, "token_ms": [1.0, 2.0], "finish": "length", "token_ids": [7, 8, 9], "text": "ü 東",
}  # fmt: skip
LOAD: dict[str, Any] = {"event": "load", "load_ms": 3.0, "backend_requested": "cpu"}


def dump(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)


def test_all_events_are_read() -> None:
    log = parse_runner_output(
        dump(
            {"event": "hello", "runner": "r", "engine": "MNN", "engine_version": "3.6.1", "pid": 7, "extra": 1},
            {**LOAD, "backend_actual": "cpu", "strength": "log", "proof": "x", "threads": 4},
            {**GENERATION, "kind": "warmup"},
            GENERATION,
            {**GENERATION, "kind": "answer", "question": "?"},
            {"event": "error", "stage": "decode", "message": "m"},
            {"event": "end", "status": "error"},
        )
    )
    assert log.hello is not None
    assert log.load is not None
    assert log.end is not None
    assert (log.hello.engine_version, log.load.backend_actual, log.end.status) == ("3.6.1", "cpu", "error")
    assert [g.kind for g in log.generations] == ["warmup", "timed", "answer"]
    (timed,) = log.of_kind("timed")
    assert (timed.ttft_ms, timed.token_ms, timed.token_ids, timed.text) == (5.0, (1.0, 2.0), (7, 8, 9), "ü 東")
    assert [(e.stage, e.message) for e in log.errors] == [("decode", "m")]
    assert log.junk == ()


INFERENCE: dict[str, Any] = {"event": "inference", "index": 0, "kind": "timed", "sample": "000000", "latency_ms": 1.5}
OUTPUT: dict[str, Any] = {
    "event": "output", "sample": "000000", "name": "out/ü", "dtype": "float32", "shape": [1, 0, 4], "file": "0.bin",
}  # fmt: skip


def test_inferences_and_their_outputs_are_read() -> None:
    log = parse_runner_output(
        dump({**INFERENCE, "begun_ns": 7, "rss_bytes": 9}, {**INFERENCE, "kind": "check"}, OUTPUT)
    )
    assert log.inferences == (
        Inference(index=0, kind="timed", sample="000000", latency_ms=1.5, begun_ns=7, rss_bytes=9),
        Inference(index=0, kind="check", sample="000000", latency_ms=1.5),
    )
    assert log.outputs == (TensorFile(sample="000000", name="out/ü", dtype="float32", shape=(1, 0, 4), file="0.bin"),)
    assert log.junk == ()


@pytest.mark.parametrize(
    "event",
    [
        {**INFERENCE, "kind": "answer"},
        {**INFERENCE, "latency_ms": None},
        {**INFERENCE, "latency_ms": "fast"},
        {**OUTPUT, "shape": [1, -1]},
        {**OUTPUT, "shape": [2**31 + 1]},
        {**OUTPUT, "shape": [1] * 17},
        {**OUTPUT, "shape": 3},
        {**OUTPUT, "file": None},
    ],
)
def test_an_inference_or_output_that_cannot_be_one_is_junk(event: dict[str, Any]) -> None:
    log = parse_runner_output(dump(event))
    assert (log.inferences, log.outputs, len(log.junk)) == ((), (), 1)


def test_what_a_load_event_does_not_tell_proves_nothing() -> None:
    log = parse_runner_output(dump(LOAD))
    assert log.load is not None
    assert (log.load.backend_actual, log.load.strength, log.load.proof) == (None, "none", "")


def test_nothing_printed_is_nothing_told() -> None:
    for output in (b"", b"\n\n", b"  \n"):
        log = parse_runner_output(output)
        assert (log.hello, log.load, log.generations, log.errors, log.end, log.junk) == (None, None, (), (), None, ())


@pytest.mark.parametrize(
    "line",
    [
        b"chatter",
        b'{"event": "gener',
        b'{"event": "progress"}',
        b'{"event": ["load"]}',
        b'{"event": null}',
        b'{"no": "event"}',
        b"[]",
        b"null",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"event":"end","status":' + b"9" * 5000 + b"}",
    ],
    ids=lambda line: repr(line[:24]),
)
def test_a_line_that_is_no_event_is_junk_and_kept_whole(line: bytes) -> None:
    log = parse_runner_output(line + b"\n" + dump(GENERATION))
    assert log.junk == (line.decode("utf-8", "replace"),)
    assert len(log.generations) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt_tokens", -1),
        ("generated_tokens", -5),
        ("generated_tokens", 2.5),
        ("prompt_tokens", 10**400),
        ("prefill_ms", None),
        ("ttft_ms", "soon"),
        ("ttft_ms", 10**400),
        ("token_ms", 3.0),
        ("token_ms", [None]),
        ("token_ids", ["x"]),
        ("kind", "best"),
        ("text", 3),
        ("text", None),
    ],
)
def test_a_generation_of_the_wrong_kind_is_junk_not_a_figure(field: str, value: object) -> None:
    log = parse_runner_output(dump({**GENERATION, field: value}))
    assert (log.generations, len(log.junk)) == ((), 1)


@pytest.mark.parametrize("missing", ["index", "kind", "prompt_tokens", "generated_tokens", "prefill_ms", "ttft_ms"])
def test_a_generation_without_a_field_it_needs_is_junk(missing: str) -> None:
    log = parse_runner_output(dump({k: v for k, v in GENERATION.items() if k != missing}))
    assert (log.generations, len(log.junk)) == ((), 1)


def test_a_strength_nobody_defined_is_no_proof() -> None:
    assert parse_runner_output(dump({**LOAD, "strength": "certain"})).load is None


def test_numbers_that_are_none_are_kept_for_the_rules_to_judge() -> None:
    log = parse_runner_output(dump({**GENERATION, "ttft_ms": math.nan, "token_ms": [math.inf, -1.0]}))
    (generation,) = log.generations
    assert math.isnan(generation.ttft_ms)
    assert generation.token_ms == (math.inf, -1.0)


def test_an_error_event_counts_even_without_a_word() -> None:
    assert [(e.stage, e.message) for e in parse_runner_output(b'{"event":"error"}').errors] == [("unknown", "")]


def test_line_ends_of_windows_and_a_missing_last_one_make_no_difference() -> None:
    log = parse_runner_output(dump(LOAD).replace(b"\n", b"\r\n") + dump(GENERATION).rstrip(b"\n"))
    assert log.load is not None
    assert (len(log.generations), log.junk) == (1, ())
