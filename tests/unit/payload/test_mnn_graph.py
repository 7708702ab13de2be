from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from harness.core.resources import data_root
from harness.payload.mnn_graph import Layer, MnnGraph, read_graph
from harness.payload.models_fetch import model_path

TINY = data_root() / "profiles" / "models" / "tiny-llama"


def test_a_graph_says_what_its_weight_file_must_have_and_how_many_tokens_it_knows(kit: ModuleType) -> None:
    assert read_graph(kit.graph()) == MnnGraph(
        version="3.6.1",
        weight_end=517,
        weight_bytes=517,
        logits=32,
        experts=0,
        layers=(Layer("/lm/lm_head/Linear", 0, 517, 8, 32, False, 64),),
        inputs=("input",),
        operators=frozenset([0, 34]),
        outputs=("logits",),
    )


@pytest.mark.parametrize("name", ["tiny-llama", "smollm2-135m"])
def test_host_and_runner_read_the_same_length_from_real_graphs(
    name: str, farm_part: Callable[[str], ModuleType]
) -> None:
    folder = model_path(name)
    if folder is None:
        pytest.skip(f"{name} is not on this computer; get it with: mnn-farm models fetch {name}")
    data = (folder / "llm.mnn").read_bytes()
    model_files = farm_part("model_files")
    assert read_graph(data).weight_end == model_files.weight_bytes(data) == (folder / "llm.mnn.weight").stat().st_size


def test_the_shipped_graph_is_read_whole() -> None:
    graph = read_graph((TINY / "llm.mnn").read_bytes())
    weights = (TINY / "llm.mnn.weight").read_bytes()
    assert (graph.version, graph.logits, graph.experts, graph.weight_bytes) == ("3.6.1", 640, 0, 381412)
    assert len(graph.layers) == 22  # seven in each of three blocks, and the last
    assert all(layer.begins(weights[layer.offset :]) for layer in graph.layers)


@pytest.mark.parametrize("kept", [0, 3, 40, 1000, 27128, 54000, 54240, 54254])
def test_a_graph_that_is_cut_off_is_refused_wherever_the_cut_is(kept: int) -> None:
    whole = (TINY / "llm.mnn").read_bytes()
    with pytest.raises(ValueError, match=r"beyond the end|longer than the file"):
        read_graph(whole[:kept])


@pytest.mark.parametrize(
    "data",
    [b"version https://git-lfs.github.com/spec/v1\n", b'{"text": 1}' * 99, bytes(99), b"\xff" * 99, b"\x08\0\0\0" * 32],
)
def test_what_is_no_graph_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"beyond the end|longer than|before the start|no operators"):
        read_graph(data)


def test_a_piece_that_two_layers_share_is_read_once(kit: ModuleType) -> None:
    shared = [kit.op(9, kit.convolution([100, 40, 2, 0, 0]), b"x", [0], 1) for _ in range(2)]
    graph = read_graph(kit.graph([*shared, *kit.head(kit.convolution([200, 50, 0, 0, 0]))]))
    assert (graph.weight_bytes, graph.weight_end) == (92, 250)


@pytest.mark.parametrize(
    ("kind", "field"), [(7, 9), (9, 6), (58, 3), (80, 3), (88, 5), (95, 6)], ids=lambda number: str(number)
)
def test_every_kind_of_operator_with_data_outside_counts(kit: ModuleType, kind: int, field: int) -> None:
    other = kit.op(kind, {field: ("q", [1000, 30, 4])}, b"x", [0], 1)
    assert read_graph(kit.graph([other, *kit.head()])).weight_end == 1034


def test_weights_inside_fused_operators_count(kit: ModuleType) -> None:
    fused = {0: [kit.convolution([1000, 30]), kit.convolution([2000, 40, 1])], 3: {5: ("q", [3000, 5, 6])}}
    rope = {4: {5: ("q", [4000, 7])}, 5: {5: ("q", [5000, 8])}}
    graph = read_graph(kit.graph([kit.op(103, fused, b"qkv", [0], 1), kit.op(102, rope, b"rope", [0], 1)]))
    assert (graph.weight_end, graph.weight_bytes) == (5008, 30 + 41 + 11 + 7 + 8)
    assert [layer.offset for layer in graph.layers] == [1000, 2000]


def test_experts_are_counted_and_their_weights_too(kit: ModuleType) -> None:
    experts = [(b"/expert/0_%d" % n, [kit.op(9, kit.convolution([1000 * n, 9]), b"x", [0], 1)]) for n in (1, 2, 3)]
    other = (b"body", [kit.op(9, kit.convolution([5000, 9]), b"x", [0], 1)])
    graph = read_graph(kit.graph(subgraphs=[*experts, other]))
    assert (graph.experts, graph.weight_end) == (3, 5009)


def test_a_graph_without_logits_or_with_another_way_to_them_does_not_say_how_many(kit: ModuleType) -> None:
    assert read_graph(kit.graph(outputs=[b"sentence_embeddings"])).logits is None
    through_a_product = [*kit.head()[:2], kit.op(25, {}, b"matmul", [2], 4)]
    assert read_graph(kit.graph(through_a_product)).logits is None
    scaled = [*kit.head()[:2], kit.op(6, {}, b"cap", [1, 2], 4)]
    assert read_graph(kit.graph(scaled)).logits == 32


def test_a_piece_at_a_negative_place_is_refused(kit: ModuleType) -> None:
    with pytest.raises(ValueError, match="negative place"):
        read_graph(kit.graph(kit.head(kit.convolution([-8, 4]))))


@pytest.mark.parametrize(
    ("head", "fits"),
    [
        (b"\x02\x20\x00\x08\x00", True),
        (b"\x01\x00\x01", True),
        (b"\x02\x20\x00\x09\x00", False),
        (b"\x00" * 5, False),
        (b"\x05" + b"\x01\x00" * 5, False),
        (b"\x02\x20\x00", False),
        (b"", False),
    ],
)
def test_a_layer_knows_its_own_beginning(head: bytes, fits: bool) -> None:
    assert Layer("x", 0, 300, 8, 32, wide=False).begins(head) is fits


def test_a_wide_layer_writes_its_shape_in_32_bits(kit: ModuleType) -> None:
    wide = read_graph(kit.graph(kit.head(kit.convolution([0, 9], 100_000, 2, wide=True)))).layers[0]
    assert wide == Layer("/lm/lm_head/Linear", 0, 9, 100_000, 2, wide=True)
    assert wide.begins(b"\x02\x02\0\0\0\xa0\x86\x01\0")
    assert read_graph(kit.graph(kit.head(kit.convolution([0, 9], kind=3)))).layers == ()
