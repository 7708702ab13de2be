"""What a phone says, held against this computer: found, matched, kept; another text; a golden set of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bench.reference_store import Entry
from harness.core.resources import cache_dir
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, Output

RUN_TIMEOUT_S = 240
GOLDEN = """
schema = 1
[[ask]]
question = "What is the capital of Italy?"
expect = "Rome"
max_tokens = 12

[[ask]]
question = "What is the capital of Atlantis?"
expect = "nobody can know this"
max_tokens = 6
"""


class Done:
    """What a run left."""

    def __init__(self, status: int, text: str, folder: Path) -> None:
        self.status, self.text, self.folder = status, text, folder

    @property
    def by_threads(self) -> dict[int, CellRecord]:
        return {record.config.threads: record for record in RunFolder(self.folder).records()}

    @property
    def computed(self) -> int:
        """How many references were computed."""
        return (self.folder / "log.txt").read_text().count("computing the reference of tiny-llama")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache without any reference."""
    root = tmp_path_factory.mktemp("cache")
    for shared in ("probe", "models"):
        (root / shared).symlink_to(cache_dir(shared))
    return root


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Done]:
    """Run two cells on a virtual phone; the first of them is asked a golden set."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env |= {"MNN_FARM_CACHE": str(cache), "COLUMNS": "200", "CI": "true"}
    golden = tmp_path_factory.mktemp("golden") / "mine.toml"
    golden.write_text(GOLDEN)

    def go() -> Done:
        folder = tmp_path_factory.mktemp("run") / "out"
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "virtual:1"]
        argv += ["--plan", "smoke", "--backends", "cpu", "--threads", "1,2", "--repeats", "2"]
        argv += ["--generate-tokens", "12", "--golden", str(golden), "--run-dir", str(folder)]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False, env=env, stdin=subprocess.DEVNULL
        )
        return Done(done.returncode, done.stdout + done.stderr, folder)

    return go


@pytest.fixture(scope="module")
def first(run: Callable[[], Done]) -> Done:
    return run()


def output(record: CellRecord) -> Output:
    assert record.output is not None
    return record.output


def test_the_phone_says_what_this_computer_says(first: Done) -> None:
    assert first.status == 0, first.text
    for record in first.by_threads.values():
        said = output(record)
        assert (record.verdict.value, said.reference, said.match, said.matched_tokens) == ("ok", "host", "prefix", 12)
        assert not {finding.code for finding in record.findings} & {"no_reference", "near_tie", "not_deterministic"}
    assert first.computed == 2


def test_a_golden_set_of_ones_own_judges_the_configuration_and_rejects_nothing(first: Done) -> None:
    leads, follows = first.by_threads[1], first.by_threads[2]
    assert (output(leads).golden, output(follows).golden) == ("1/2", "1/1")
    assert (output(leads).golden_set or "").startswith("mine ")
    assert output(leads).golden_ci95 == (0.0945, 0.9055)
    assert output(follows).golden_set is None
    assert [answer.right for answer in output(leads).answers] == [True, False]
    assert leads.raw is not None
    lines = (first.folder / leads.raw / "answers.jsonl").read_text().splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    assert questions[1:] == ["What is the capital of Italy?", "What is the capital of Atlantis?"]
    assert [sample.kind for sample in leads.samples].count("answer") == 1
    assert "recommended on virtual-high-1, tiny-llama: CPU low / low" in first.text
    assert "1/2 answers right" in first.text


def test_a_second_run_computes_nothing_and_another_text_is_wrong(
    first: Done, run: Callable[[], Done], cache: Path
) -> None:
    bent = []
    for file in cache.glob("references/*/*.json"):
        entry = Entry.model_validate_json(file.read_bytes())
        assert entry.reference is not None
        if len(entry.reference.answers) == 3:  # that of the cell which is asked the set
            ids = entry.reference.timed.token_ids
            timed = entry.reference.timed.model_copy(update={"token_ids": (*ids[:2], ids[2] + 1, *ids[3:])})
            bent.append((ids[2], ids[2] + 1))
            doctored = entry.model_copy(update={"reference": entry.reference.model_copy(update={"timed": timed})})
            file.write_text(doctored.model_dump_json())
    [(said, wanted)] = bent
    again = run()
    assert again.computed == 0
    wrong, fine = again.by_threads[1], again.by_threads[2]
    assert (wrong.verdict.value, wrong.reason, fine.verdict.value) == ("rejected", "output_wrong", "ok")
    assert f"differs from the reference: token 3 is {said} instead of {wanted}; it says" in wrong.detail
    assert (output(wrong).match, output(wrong).matched_tokens) == ("differs", 2)
    assert output(wrong).golden == "1/2"
    assert again.status == 1
    assert "output_wrong (product) on virtual-high-1" in again.text
    assert wrong.cell_id == first.by_threads[1].cell_id
