"""The streamed text: its tokens with their moments, whatever came together with what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.runners.streamed import parts_of, read_stream


@pytest.fixture(scope="module")
def tools(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("tool_runs.py"))


def test_each_token_has_its_moment_and_the_prompt_files_line_is_the_first_submission(tools: ModuleType) -> None:
    stream = read_stream(tools.demo([tools.TEXT, tools.TEXT], 8))
    assert stream.data == b"The river ran east" * 2
    assert stream.submitted_ns == tools.BEGUN_NS + 500 * tools.MS
    assert stream.head == b"".join(tools.HEAD)
    assert b"decode speed = 50.00 tok/s" in stream.tail
    parts = parts_of(stream, 2, 4)
    assert parts is not None
    assert [part.text for part in parts] == ["The river ran east"] * 2
    since_ms = [[(ns - tools.BEGUN_NS) // tools.MS for ns in part.stamps_ns or ()] for part in parts]
    assert since_ms == [[600, 620, 640, 660], [760, 780, 800, 820]]


def test_tokens_that_came_together_have_no_moments_and_the_others_do(tools: ModuleType) -> None:
    chunks = tools.streamed([tools.TEXT, tools.TEXT])
    chunks[3:5] = [(chunks[4][0], chunks[3][1] + chunks[4][1])]
    parts = parts_of(read_stream(tools.run(chunks)), 2, 4)
    assert parts is not None
    assert [part.stamps_ns is None for part in parts] == [True, False]
    assert parts[0].span_ns is not None, "its first and its last token came by themselves"


def test_the_span_of_a_text_whose_first_tokens_came_together_is_not_known(tools: ModuleType) -> None:
    chunks = tools.streamed([tools.TEXT, tools.TEXT])
    chunks[2:4] = [(chunks[3][0], chunks[2][1] + chunks[3][1])]
    parts = parts_of(read_stream(tools.run(chunks)), 2, 4)
    assert parts is not None
    assert [part.span_ns is None for part in parts] == [True, False]


def test_a_chunk_over_the_border_of_two_texts_takes_the_moments_of_both(tools: ModuleType) -> None:
    chunks = tools.streamed([tools.TEXT, tools.TEXT])
    chunks[5:7] = [(chunks[6][0], chunks[5][1] + chunks[6][1])]
    parts = parts_of(read_stream(tools.run(chunks)), 2, 4)
    assert parts is not None
    assert [part.data for part in parts] == [b"The river ran east"] * 2
    assert [part.stamps_ns for part in parts] == [None, None]


def test_the_submission_is_not_known_where_its_line_came_with_text(tools: ModuleType) -> None:
    chunks = tools.streamed([tools.TEXT])
    chunks[1:3] = [(chunks[2][0], chunks[1][1] + chunks[2][1])]
    stream = read_stream(tools.run(chunks))
    assert stream.submitted_ns is None
    assert stream.data == b"The river ran east"


def test_texts_that_differ_are_divided_by_their_tokens_where_each_is_a_chunk(tools: ModuleType) -> None:
    texts = [(b"One", b" two"), (b"Three", b" four")]
    parts = parts_of(read_stream(tools.demo(texts, 8)), 2, 2)
    assert parts is not None
    assert [part.text for part in parts] == ["One two", "Three four"]
    assert parts_of(read_stream(tools.demo(texts, 8)), 2, 3) is None


def test_half_a_character_is_no_reason_to_lose_a_token(tools: ModuleType) -> None:
    stream = read_stream(tools.demo([("é".encode()[:1], "é".encode()[1:], b"!", b"\xe2")], 8))
    parts = parts_of(stream, 1, 4)
    assert parts is not None
    assert parts[0].text == "é!�"
    assert len(parts[0].stamps_ns or ()) == 4


def test_what_the_engine_says_between_two_tokens_is_not_the_models(tools: ModuleType) -> None:
    chunks = tools.streamed([tools.TEXT])
    chunks[4] = (chunks[4][0], b"code=2 in onForward, 769 \n" + chunks[4][1])
    stream = read_stream(tools.run(chunks))
    assert stream.data == b"The river ran east"
    assert b"code=2 in onForward" in stream.head


def test_lines_of_the_model_that_look_like_comments_and_rulers_stay(tools: ModuleType) -> None:
    text = [b"# Rivers\n", b"####", b"\n", b"east\n"]
    stream = read_stream(tools.demo([text], 8))
    assert stream.data == b"".join(text)


def test_an_output_without_a_prompt_file_has_no_text(tools: ModuleType) -> None:
    stream = read_stream(tools.run([(5.0, b"LLM init error\n")]))
    assert (stream.data, stream.head, stream.submitted_ns) == (b"", b"LLM init error\n", None)
