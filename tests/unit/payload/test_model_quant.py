from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from harness.core.resources import data_root
from harness.payload.mnn_graph import Layer, read_graph
from harness.payload.model_quant import Quantization, read_quantization

TINY = data_root() / "profiles" / "models" / "tiny-llama"


def test_the_shipped_model_has_4_bits_in_blocks_of_64() -> None:
    graph = read_graph((TINY / "llm.mnn").read_bytes())
    assert read_quantization(graph, TINY / "llm.mnn.weight") == Quantization(4, 64)


@pytest.mark.parametrize(
    ("values", "bits"), [(0, 8), (255, 8), (128, 7), (16, 4), (9, 4), (8, 3), (4, 2), (2, 1), (1, 1)]
)
def test_as_many_values_as_a_layer_chooses_from_need_so_many_bits(values: int, bits: int) -> None:
    layer = Layer("x", 0, 300, 8, 32, wide=False)
    assert layer.bits(b"\x02\x20\x00\x08\x00" + bytes([values])) == bits


@pytest.mark.parametrize("head", [b"", b"\x02\x20\x00\x08\x00", b"\x02\x20\x00\x09\x00\x10"])
def test_what_is_not_the_layers_head_tells_no_bits(head: bytes) -> None:
    assert Layer("x", 0, 300, 8, 32, wide=False).bits(head) is None


@pytest.mark.parametrize(
    ("scales", "quantized", "block"),
    [
        (4 * 8, {}, 32),
        (8 * 8, {9: ("<i", 1)}, 32),
        (2 * 8, {15: ("<B", 1)}, 32),
        (4 * 64, {9: ("<i", 1), 15: ("<B", 1)}, 4),
        (0, {}, None),
        (4 * 7, {}, None),
    ],
    ids=["32 bits", "with offsets", "16 bits", "both", "none", "no whole number"],
)
def test_the_number_of_scales_tells_the_block(
    kit: ModuleType, scales: int, quantized: dict[int, object], block: int | None
) -> None:
    layer = kit.convolution([0, 300, scales])
    layer[3] |= quantized
    assert read_graph(kit.graph(kit.head(layer))).layers[0].block == block


def test_most_weights_decide_and_a_file_that_is_cut_off_tells_nothing(kit: ModuleType, tmp_path: Path) -> None:
    small, large = b"\x02\x02\x00\x08\x00\x00", b"\x02\x20\x00\x08\x00\x10"
    layers = [kit.op(9, kit.convolution([100, 20, 16], 8, 2), b"x", [0], 1), *kit.head(kit.convolution([0, 90, 32]))]
    graph = read_graph(kit.graph(layers))
    weights = tmp_path / "weights"
    weights.write_bytes(large.ljust(100, b"i") + small.ljust(36, b"i"))
    assert read_quantization(graph, weights) == Quantization(4, 32)
    weights.write_bytes(b"")
    assert read_quantization(graph, weights) == Quantization(None, 32)
