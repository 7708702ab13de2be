"""How long a weight file has to be, read from the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.payload.graph import weight_file_bytes
from harness.payload.models import find_model


def test_a_graph_reads_its_weight_file_to_the_end() -> None:
    model = find_model("tiny-llama")
    assert weight_file_bytes((model / "llm.mnn").read_bytes()) == (model / "llm.mnn.weight").stat().st_size


def test_a_graph_that_holds_its_weights_reads_none(mnn_graphs: Path) -> None:
    assert weight_file_bytes((mnn_graphs / "nchw_to_blocks.mnn").read_bytes()) == 0


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"\xff" * 64, b"version https://git-lfs.github.com/spec/v1\n"])
def test_other_bytes_are_no_graph(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        weight_file_bytes(content)


def test_a_graph_cut_anywhere_gives_a_length_or_no_graph_and_nothing_else() -> None:
    graph = (find_model("tiny-llama") / "llm.mnn").read_bytes()
    whole, refused = weight_file_bytes(graph), 0
    for length in range(0, len(graph), 997):
        try:
            assert weight_file_bytes(graph[:length]) <= whole
        except ValueError:
            refused += 1
    assert refused > len(graph) // 997 // 2
