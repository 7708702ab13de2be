"""With how many bits a model's weights are written, and how many of them share a scale: read from its layers.

llmexport notes both, converters of other formats do not. Each quantized layer's piece of the weight file says by itself
how many values its indices choose from (MNN's ``ReadQuanData_c``), and the number of its scales tells the block.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.payload.mnn_graph import Layer, MnnGraph


@dataclass(frozen=True)
class Quantization:
    """How most of a model's weights are written; ``None``: it cannot be told."""

    bits: int | None = None
    block: int | None = None


def read_quantization(graph: MnnGraph, weights: Path) -> Quantization:
    """Read how most weights are written, by layers that are there; one that is cut off is left out.

    Raises:
        OSError: the file cannot be read.
    """
    bits: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    with weights.open("rb") as opened:
        for layer in graph.layers:
            opened.seek(layer.offset)
            found = layer.bits(opened.read(Layer.HEAD_BYTES))
            if found is not None:
                bits[found] += layer.weights
            if layer.block is not None:
                blocks[layer.block] += layer.weights
    return Quantization(_most(bits), _most(blocks))


def _most(counted: Counter[int]) -> int | None:
    return counted.most_common(1)[0][0] if counted else None
