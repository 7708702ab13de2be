"""What decides how much memory a model takes, read from its folder: numbers of weights, widths, and sizes of files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.payload.mnn_graph import MnnGraph
from harness.payload.model_check import ModelCheck
from harness.payload.model_fit import embedding_of

#: The input by which the engine asks for the logits of the last token alone (MNN 3.1 and newer).
_LAST_ONLY = "logits_index"
#: Where neither graph nor configuration tells: no model known here caches more than twice its hidden size of each.
_WIDEST_CACHE = 2


@dataclass(frozen=True)
class Interval:
    """At least ``low`` and at most ``high``."""

    low: int
    high: int

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class ModelShape:
    """What decides how much memory a model takes. Sizes in bytes.

    Attributes:
        weights: how many weights its quantized layers have.
        quantized_bytes: of those layers in the weight file.
        other_bytes: of the weight file that the graph reads besides: norms, biases, layers that are not quantized.
        weight_end: where the last byte lies that is read from the weight file.
        largest_weights: how many weights the largest layer has.
        hidden: numbers of each token between layers.
        widest: numbers of each token inside a layer, at most, the logits apart.
        keys: numbers that all layers together cache of each token as keys.
        values: the same as values.
        state_values: numbers that linear attentions keep, however long the text is.
        rows: how many tokens the model knows.
        all_logits: whether it computes logits for every token of the prompt, not only for the last.
        square_mask: whether each token of a prompt has a mask over all others, also on the CPU.
        scale_bytes: the embedding's scales, which are held beside the weights.
        graph_bytes: of the graph.
        tokenizer_bytes: of the tokenizer.
        encoder_bytes: of graphs and weights of the encoders for pictures and sound.
    """

    weights: int
    quantized_bytes: int
    other_bytes: int
    weight_end: int
    largest_weights: int
    hidden: int
    widest: int
    keys: Interval
    values: Interval
    state_values: int
    rows: int
    all_logits: bool
    square_mask: bool
    scale_bytes: int
    graph_bytes: int
    tokenizer_bytes: int
    encoder_bytes: int


def shape_of(check: ModelCheck) -> ModelShape | None:
    """Return the shape of a model, ``None`` where its graph could not be read."""
    graph = check.graph
    if graph is None:
        return None
    hidden = _whole(check.config.get("hidden_size")) or 0
    quantized = {layer.offset: layer for layer in graph.layers}
    quantized_bytes = sum(layer.size for layer in quantized.values())
    embedding = embedding_of(check.config)
    keys, values = _cached(graph, check.config, hidden)
    return ModelShape(
        weights=sum(layer.weights for layer in quantized.values()),
        quantized_bytes=quantized_bytes,
        other_bytes=max(0, graph.weight_bytes - quantized_bytes),
        weight_end=graph.weight_end,
        largest_weights=max((layer.weights for layer in graph.layers), default=0),
        hidden=hidden,
        widest=max((layer.outputs for layer in graph.layers if layer.outputs != graph.logits), default=4 * hidden),
        keys=keys,
        values=values,
        state_values=graph.state_values,
        rows=check.rows or graph.logits or 0,
        all_logits=_LAST_ONLY not in graph.inputs,
        square_mask=check.config.get("attention_mask", "float") != "float"
        or check.config.get("attention_type", "full") != "full",
        scale_bytes=embedding.scale_bytes if embedding is not None else 0,
        graph_bytes=_size(check, "llm_model"),
        tokenizer_bytes=_size(check, "tokenizer_file"),
        encoder_bytes=sum(_size(check, key) for key in check.files if key.startswith(("visual_model", "audio_model"))),
    )


def _cached(graph: MnnGraph, config: Mapping[str, Any], hidden: int) -> tuple[Interval, Interval]:
    """Return how many numbers are cached of each token: as the graph tells, else the configuration."""
    known = _from_config(config)
    bound = Interval(known, known) if known is not None else Interval(0, _WIDEST_CACHE * hidden)
    # Older exports have no attention of their own: the cache is an input of the graph, for each layer.
    untold = 0 if graph.caches or graph.state_values else _whole(config.get("layer_nums")) or 0
    keys = [cache.keys for cache in graph.caches]
    values = [cache.values for cache in graph.caches]
    return _sum(keys, untold, bound), _sum(values, untold, bound)


def _sum(widths: list[int | None], untold: int, bound: Interval) -> Interval:
    told = sum(width for width in widths if width is not None)
    untold += widths.count(None)
    return Interval(told + untold * bound.low, told + untold * bound.high)


def _from_config(config: Mapping[str, Any]) -> int | None:
    """Return heads times their size, from what llmexport notes (``key_value_shape`` of older ones begins with a 2)."""
    shape = config.get("key_value_shape")
    if isinstance(shape, list) and len(shape) >= 2 and all(_whole(size) is not None for size in shape):
        return math.prod(int(size) for size in shape[1:] if size)
    heads, size = _whole(config.get("num_key_value_heads")), _whole(config.get("head_dim"))
    return heads * size if heads and size else None


def _size(check: ModelCheck, key: str) -> int:
    return check.files[key].stat().st_size if key in check.files else 0


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
