"""Parts of the runner that real models do not reach: broken logits, split characters, talkative engines."""

from __future__ import annotations

import ast
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.core.resources import data_root
from harness.payload.models_fetch import model_path


@pytest.fixture(scope="module")
def farm_runner(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    path = data_root() / "device_bins" / "runner" / "farm_runner.py"
    return load_module(path)


def test_it_is_written_for_the_oldest_python_of_a_phone() -> None:
    source = (data_root() / "device_bins" / "runner" / "farm_runner.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "__future__" in imported


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


def generate(farm_runner: ModuleType, engine: Engine, limit: int, *, ban_stops: bool = True) -> dict[str, Any]:
    model = farm_runner.Model(engine, [5], Quiet())
    made: dict[str, Any] = model.generate([0, 1], limit, 0.0, ban_stops=ban_stops)
    return made


def test_each_token_is_fed_back(farm_runner: ModuleType) -> None:
    engine = Engine(likes(0), likes(1), likes(2))
    assert generate(farm_runner, engine, 3)["token_ids"] == [0, 1, 2]
    assert engine.fed == [[0, 1], [0], [1]]


def test_a_banned_stop_token_gives_way_to_the_next_best(farm_runner: ModuleType) -> None:
    made = generate(farm_runner, Engine(likes(5), likes(5)), 2)
    assert (made["token_ids"], made["finish"]) == ([0, 0], "length")


def test_an_answer_ends_at_the_stop_token(farm_runner: ModuleType) -> None:
    made = generate(farm_runner, Engine(likes(1), likes(5)), 9, ban_stops=False)
    assert (made["token_ids"], made["finish"], made["text"]) == ([1, 5], "eos", "b")


def test_the_last_row_counts_when_the_engine_returns_one_per_token(farm_runner: ModuleType) -> None:
    assert generate(farm_runner, Engine([likes(3)[0], likes(1)[0]]), 1)["token_ids"] == [1]


def test_a_character_split_over_two_tokens_is_put_together(farm_runner: ModuleType) -> None:
    assert generate(farm_runner, Engine(likes(0), likes(3), likes(4)), 3)["text"] == "aé"


def test_half_a_character_becomes_the_replacement_character(farm_runner: ModuleType) -> None:
    assert generate(farm_runner, Engine(likes(3), likes(0)), 2)["text"] == "\ufffda"


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
    farm_runner: ModuleType, rows: list[list[float]] | None, says: str
) -> None:
    with pytest.raises(farm_runner.StageError, match=says) as caught:
        generate(farm_runner, Engine(rows), 3)
    assert (caught.value.stage, caught.value.generation) == ("prefill", None)


def test_a_decode_that_breaks_keeps_what_had_come_out(farm_runner: ModuleType) -> None:
    with pytest.raises(farm_runner.StageError) as caught:
        generate(farm_runner, Engine(likes(0), likes(1), None), 9)
    assert caught.value.stage == "decode"
    partial = caught.value.generation
    assert (partial["finish"], partial["token_ids"], len(partial["token_ms"])) == ("error", [0, 1], 1)


def test_a_prompt_is_cut_to_the_token_and_keeps_the_prefix(farm_runner: ModuleType) -> None:
    model = farm_runner.Model(Engine(), [], Quiet())
    assert model.prompt("AB", 6) == [5, 65, 66, 65, 66, 65]
    assert len(model.prompt("AB", 1000)) == 1000


def test_the_graph_says_how_long_the_weight_file_must_be(farm_runner: ModuleType) -> None:
    folder = model_path("tiny-llama")
    assert folder is not None
    graph = (folder / "llm.mnn").read_bytes()
    assert farm_runner.weight_bytes(graph) == (folder / "llm.mnn.weight").stat().st_size


@pytest.mark.parametrize("graph", [b"", b"abc", bytes(64), b"\xff" * 64, b"\x08\0\0\0" * 32])
def test_bytes_that_are_no_graph_are_refused(farm_runner: ModuleType, graph: bytes, tmp_path: Path) -> None:
    with pytest.raises((ValueError, farm_runner.struct.error)):
        farm_runner.weight_bytes(graph)


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
    farm_runner: ModuleType, pipes: tuple[int, int, int, int, int, int]
) -> None:
    source, engine, answers, to_parent, sink_end, sink = pipes
    copier = threading.Thread(target=farm_runner.copy_along, args=(source, to_parent, sink))
    copier.start()
    os.write(engine, b"half a line, \xff and Can't Find type=7 ")
    os.write(engine, b"backend, use 0 instead\nfine\nError one\nno new line" + farm_runner.SYNC + b"\n")
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


def test_an_end_that_the_model_does_not_have_is_none(farm_runner: ModuleType, tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.txt"
    tokenizer.write_bytes(b"430 3\n2 3 0\n1 2 7 None 9 \nrest")
    assert farm_runner.stop_tokens(tokenizer) == [7, 9]
