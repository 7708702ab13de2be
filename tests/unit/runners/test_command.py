"""The command that is built is one that the runner's own option parser understands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.bundle import Bundle, BundleManifest, default_bundle
from harness.payload.folder import PayloadFolder
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.runners.farm_runner import (
    ASK_FILE,
    PROMPT_TEXT,
    ask_file,
    build_command,
    prompt_hash,
    reference_command,
)

Parse = Callable[[Sequence[str]], argparse.Namespace]


@pytest.fixture(scope="module")
def parse(farm_part: Callable[[str], ModuleType]) -> Parse:
    """How the runner reads its command line."""
    return lambda argv: farm_part("options").parse_options(argv, "")


def plan(**over: Any) -> Plan:
    base = {"models": ["toy"], "backends": ["cpu"], "threads": [4], "warmups": 2, "repeats": 3}
    return Plan.model_validate({**base, **over})


def command(bundle: Bundle | None = None, **over: Any) -> tuple[str, ...]:
    chosen = plan(**over)
    return build_command(bundle or default_bundle(), "/b", "/m", "/w", cells_of(chosen)[0], chosen)


def hash_of(**over: Any) -> str:
    chosen = plan(**over)
    return prompt_hash(chosen, cells_of(chosen)[0])


def test_the_runner_understands_every_option(parse: Parse) -> None:
    asked = [{"question": 'Say "ü", [x] & $HOME?', "expect": ".", "max_tokens": 9}, {"question": "?", "expect": "."}]
    argv = command(
        backends=["opencl"], precision=["normal"], memory=["high"], prompt_tokens=[48], generate_tokens=[16],
        engine={"use_mmap": True, "chunk": 64, "power": "high"}, ask=asked, context_tokens=[128], load_rounds=2,
        cv_limit=0.05, repeats_max=9,
    )  # fmt: skip
    assert argv[:2] == ("python3", "/b/farm_runner.py")
    options = parse(argv[2:])
    assert (options.model, options.work_dir, options.backend, options.threads) == (Path("/m"), Path("/w"), "opencl", 68)
    assert (options.precision, options.memory, options.require_backend) == ("normal", "high", True)
    assert (options.prompt_tokens, options.generate_tokens, options.warmups, options.repeats) == (48, 16, 2, 3)
    assert dict(options.engine) == {"use_mmap": True, "chunk": 64, "power": "high"}
    assert options.prompt_text == PROMPT_TEXT
    assert (options.context_tokens, options.load_rounds) == (128, 2)
    assert (options.cv_limit, options.max_repeats, options.duration_s) == (0.05, 9, None)
    assert options.ask == [('Say "ü", [x] & $HOME?', 9), ("?", 32)]


def test_a_sustained_cell_is_asked_for_by_its_duration(parse: Parse) -> None:
    options = parse(command(kind="sustained", duration_s=90.5, cv_limit=0.1, repeats_max=9)[2:])
    assert (options.duration_s, options.cv_limit, options.max_repeats) == (90.5, None, None)


def test_a_program_of_its_own_is_started_without_python() -> None:
    manifest = BundleManifest(name="toy", runner="farm_runner", backends=["cpu"], program="bin/run", files=["bin/run"])
    assert command(Bundle(manifest, PayloadFolder(Path(), ())))[:2] == ("/b/bin/run", "--model")


def test_the_hash_of_what_is_asked_is_short_and_follows_the_questions() -> None:
    ask = {"question": "A?", "expect": "."}
    hashes = [hash_of(ask=asks) for asks in ([], [ask], [{**ask, "max_tokens": 5}], [{**ask, "question": "B?"}])]
    assert len(set(hashes)) == 4
    assert all(len(one) == 16 for one in hashes)
    assert hash_of(ask=[ask]) == hash_of(ask=[{**ask, "expect": "other"}], threads=[1])


def test_the_golden_set_goes_by_a_file_and_only_in_the_cell_that_leads(parse: Parse, tmp_path: Path) -> None:
    chosen = plan(
        threads=[1, 2], golden={"set": "mine", "ask": [{"question": 'Say "ü"', "expect": ".", "max_tokens": 9}]}
    )
    file = tmp_path / ASK_FILE
    file.write_bytes(ask_file(chosen))
    leads, follows = (
        build_command(default_bundle(), "/b", "/m", str(tmp_path), cell, chosen) for cell in cells_of(chosen)
    )
    assert parse(leads[2:]).ask == [('Say "ü"', 9)]
    assert "--ask-file" not in follows


def test_the_reference_is_asked_for_as_the_runner_understands_it(parse: Parse, tmp_path: Path) -> None:
    argv = reference_command(
        ("python3", "/r.py"), "/m", str(tmp_path), threads=3, precision="low", memory="high", lengths=(8, 9, 10),
        engine={"chunk": 64}, questions=[("Häuser?\nTwo lines", 7)],
    )  # fmt: skip
    options = parse(argv[2:])
    assert (options.prompt_tokens, options.generate_tokens, options.context_tokens) == (8, 9, 10)
    assert (options.precision, options.memory, options.threads, options.margins) == ("low", "high", 3, True)
    assert (options.warmups, options.repeats, dict(options.engine)) == (0, 1, {"chunk": 64})
    assert options.ask == [("Häuser?\nTwo lines", 7)]
    assert options.prompt_text == PROMPT_TEXT
