"""Parts of the runner that real models do not reach: broken logits, split characters, talkative engines."""

from __future__ import annotations

import ast
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.core.resources import data_root
from harness.payload.bundle import default_bundle
from harness.payload.models_fetch import model_path

Part = Callable[[str], ModuleType]
FOLDER = data_root() / "device_bins" / "runner"


@pytest.fixture(scope="module")
def language(farm_part: Part) -> ModuleType:
    return farm_part("language")


@pytest.fixture(scope="module")
def model_files(farm_part: Part) -> ModuleType:
    return farm_part("model_files")


def test_all_its_parts_are_pushed() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in (FOLDER / "farm").glob("*.py")}
    assert {file.path for file in default_bundle().folder.files} == {"farm_runner.py", *files}


@pytest.mark.parametrize("file", [file.path for file in default_bundle().folder.files])
def test_it_is_written_for_the_oldest_python_of_a_phone(file: str) -> None:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "__future__" in imported or len(tree.body) == 1, "annotations are not evaluated"


def test_it_leaves_nothing_in_its_folder(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(FOLDER, tmp_path / "runner", ignore=shutil.ignore_patterns("__pycache__")))
    before = sorted(copy.rglob("*"))
    subprocess.run(
        [sys.executable, str(copy / "farm_runner.py"), "--help"], capture_output=True, timeout=60, check=True
    )
    assert sorted(copy.rglob("*")) == before


class Quiet:
    """An engine output in which nothing was noticed."""

    def heard(self) -> dict[str, Any]:
        return {"fallback": "", "complaints": []}


class Variable:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def read(self) -> np.ndarray:
        return self.values


class Engine:
    """Plays logits from a list; a ``None`` is a forward that fails. Token 3 and 4 are halves of one character."""

    PIECES = (b"a", b"b", b"c", b"\xc3", b"\xa9", b"")

    def __init__(self, *played: list[list[float]] | None) -> None:
        self.played = iter(played)
        self.history = 0
        self.fed: list[list[int]] = []

    def reset(self) -> None:
        self.history = 0

    def generate_init(self) -> None:
        pass

    def forward(self, ids: list[int]) -> Variable | None:
        self.fed.append(ids)
        rows = next(self.played)
        if rows is None:
            return None
        self.history += len(ids)
        return Variable(np.array([rows], dtype=np.float32))

    def get_current_history(self) -> int:
        return self.history

    def tokenizer_encode(self, text: str) -> list[int]:
        return [5, *(ord(letter) for letter in text)]

    def tokenizer_decode(self, token: int) -> str:
        return self.PIECES[token].decode("utf-8")


def likes(token: int) -> list[list[float]]:
    row = [0.0] * 6
    row[token] = 2.0
    row[(token + 1) % 6] = 1.0
    return [row]


def generate(language: ModuleType, engine: Engine, limit: int, *, ban_stops: bool = True) -> dict[str, Any]:
    model = language.Model(engine, [5], Quiet())
    made: dict[str, Any] = model.generate([0, 1], limit, 0.0, ban_stops=ban_stops)
    return made


def test_each_token_is_fed_back(language: ModuleType) -> None:
    engine = Engine(likes(0), likes(1), likes(2))
    assert generate(language, engine, 3)["token_ids"] == [0, 1, 2]
    assert engine.fed == [[0, 1], [0], [1]]


def test_a_banned_stop_token_gives_way_to_the_next_best(language: ModuleType) -> None:
    made = generate(language, Engine(likes(5), likes(5)), 2)
    assert (made["token_ids"], made["finish"]) == ([0, 0], "length")


def test_an_answer_ends_at_the_stop_token(language: ModuleType) -> None:
    made = generate(language, Engine(likes(1), likes(5)), 9, ban_stops=False)
    assert (made["token_ids"], made["finish"], made["text"]) == ([1, 5], "eos", "b")


def test_the_last_row_counts_when_the_engine_returns_one_per_token(language: ModuleType) -> None:
    assert generate(language, Engine([likes(3)[0], likes(1)[0]]), 1)["token_ids"] == [1]


def test_a_character_split_over_two_tokens_is_put_together(language: ModuleType) -> None:
    assert generate(language, Engine(likes(0), likes(3), likes(4)), 3)["text"] == "aé"


def test_half_a_character_becomes_the_replacement_character(language: ModuleType) -> None:
    assert generate(language, Engine(likes(3), likes(0)), 2)["text"] == "\ufffda"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[float("nan")] * 6], "not finite"),
        ([[0.0, float("inf"), 0.0, 0.0, 0.0, 0.0]], "not finite"),
        ([[0.0] * 6], "all zero"),
        ([[1.0] * 6] * 3, "3 rows of logits for 2 tokens"),
        (None, "computed nothing"),
    ],
)
def test_a_prefill_that_gives_no_numbers_is_an_error(
    language: ModuleType, rows: list[list[float]] | None, says: str
) -> None:
    with pytest.raises(language.StageError, match=says) as caught:
        generate(language, Engine(rows), 3)
    assert (caught.value.stage, caught.value.generation) == ("prefill", None)


def test_a_decode_that_breaks_keeps_what_had_come_out(language: ModuleType) -> None:
    with pytest.raises(language.StageError) as caught:
        generate(language, Engine(likes(0), likes(1), None), 9)
    assert caught.value.stage == "decode"
    partial = caught.value.generation
    assert (partial["finish"], partial["token_ids"], len(partial["token_ms"])) == ("error", [0, 1], 1)


def test_a_prompt_is_cut_to_the_token_and_keeps_the_prefix(language: ModuleType) -> None:
    model = language.Model(Engine(), [], Quiet())
    assert model.prompt("AB", 6) == [5, 65, 66, 65, 66, 65]
    assert len(model.prompt("AB", 1000)) == 1000


def test_the_graph_says_how_long_the_weight_file_must_be(model_files: ModuleType) -> None:
    folder = model_path("tiny-llama")
    assert folder is not None
    graph = (folder / "llm.mnn").read_bytes()
    assert model_files.weight_bytes(graph) == (folder / "llm.mnn.weight").stat().st_size


@pytest.mark.parametrize("graph", [b"", b"abc", bytes(64), b"\xff" * 64, b"\x08\0\0\0" * 32])
def test_bytes_that_are_no_graph_are_refused(model_files: ModuleType, graph: bytes, tmp_path: Path) -> None:
    with pytest.raises((ValueError, struct.error)):
        model_files.weight_bytes(graph)


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int, int, int]]:
    fds = (*os.pipe(), *os.pipe(), *os.pipe())
    yield fds
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            continue


def test_all_that_the_engine_prints_is_copied_and_noticed(
    farm_part: Part, pipes: tuple[int, int, int, int, int, int]
) -> None:
    source, engine, answers, to_parent, sink_end, sink = pipes
    talk = farm_part("talk")
    copier = threading.Thread(target=talk.copy_along, args=(source, to_parent, sink))
    copier.start()
    os.write(engine, b"half a line, \xff and Can't Find type=7 ")
    os.write(engine, b"backend, use 0 instead\nfine\nError one\nno new line" + talk.SYNC + b"\n")
    answer = json.loads(os.read(answers, 65536))
    os.write(engine, b"the end")
    os.close(engine)
    copier.join(10)
    assert answer["fallback"].endswith("Can't Find type=7 backend, use 0 instead")
    assert answer["complaints"] == [answer["fallback"], "Error one"]
    copied = os.read(sink_end, 65536)
    assert copied == (
        b"half a line, \xff and Can't Find type=7 backend, use 0 instead\nfine\nError one\nno new line\nthe end\n"
    )


def test_an_end_that_the_model_does_not_have_is_none(model_files: ModuleType, tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.txt"
    tokenizer.write_bytes(b"430 3\n2 3 0\n1 2 7 None 9 \nrest")
    assert model_files.stop_tokens(tokenizer) == [7, 9]
