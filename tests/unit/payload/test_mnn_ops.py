"""What attentions keep of each token, by the layers that their keys and values come from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.payload.mnn_graph import read_graph
from harness.payload.mnn_ops import Cache

ATTENTION, LINEAR_ATTENTION, ROPE = 299, 305, 306


def caches(kit: ModuleType, *ops: Any) -> tuple[Cache, ...]:
    found: tuple[Cache, ...] = read_graph(kit.graph([*kit.head(), *ops])).caches
    return found


def linear(kit: ModuleType, reads: int, makes: int, outputs: int) -> Any:
    return kit.op(9, kit.convolution([0, 0], 8, outputs), b"linear", [reads], makes, type_=12)


def attention(kit: ModuleType, *reads: int, **main: Any) -> Any:
    return kit.op(98, main.get("main", {0: ("<B", 1)}), b"attention", reads, 90, type_=ATTENTION)


def projections(kit: ModuleType) -> list[Any]:
    return [linear(kit, 0, 20, 64), linear(kit, 0, 21, 16), linear(kit, 0, 22, 24)]


def test_keys_and_values_are_as_wide_as_the_layers_they_come_from(kit: ModuleType) -> None:
    assert caches(kit, *projections(kit), attention(kit, 20, 21, 22)) == (Cache(16, 24),)


def test_what_lies_between_changes_nothing(kit: ModuleType) -> None:
    """Reshapes take their sizes from elsewhere; a rotation joins two halves of the same tensor with a table."""
    between = [
        kit.op(55, {}, b"reshape", [21, 20], 30),
        kit.op(65, {}, b"half", [30, 20], 31),
        kit.op(4, {}, b"concat", [31, 30], 32),
        kit.op(6, {}, b"times_cosine", [32, 1], 33),
    ]
    assert caches(kit, *projections(kit), *between, attention(kit, 20, 33, 22)) == (Cache(16, 24),)


def test_one_operator_for_all_three_projections_or_for_both_rotations_is_seen_through(kit: ModuleType) -> None:
    three = {0: [kit.convolution([0, 0], 8, outputs) for outputs in (64, 16, 24)]}
    fused = kit.op(103, three, b"qkv", [0], 20, 21, 22, type_=307)
    rope = kit.op(102, {}, b"rope", [20, 21, 1, 1], 40, 41, type_=ROPE)
    assert caches(kit, fused, rope, attention(kit, 40, 41, 22)) == (Cache(16, 24),)


def test_a_layer_that_makes_the_query_too_does_not_tell_the_share_of_the_keys(kit: ModuleType) -> None:
    parts = [kit.op(65, {}, b"slice", [20], makes) for makes in (30, 31, 32)]
    assert caches(kit, linear(kit, 0, 20, 104), *parts, attention(kit, 30, 31, 32)) == (Cache(None, None),)


def test_keys_of_two_layers_are_not_told(kit: ModuleType) -> None:
    both = [linear(kit, 0, 23, 8), kit.op(4, {}, b"concat", [21, 23], 30)]
    assert caches(kit, *projections(kit), *both, attention(kit, 20, 30, 22)) == (Cache(None, 24),)


@pytest.mark.parametrize("main", [{0: ("<B", 0)}, {3: ("<i", 2)}, {1: b"layer_4"}])
def test_an_attention_without_a_cache_of_its_own_keeps_nothing(kit: ModuleType, main: Any) -> None:
    assert caches(kit, *projections(kit), attention(kit, 20, 21, 22, main=main)) == ()


def test_a_circle_ends(kit: ModuleType) -> None:
    circle = [kit.op(55, {}, b"a", [31], 30), kit.op(55, {}, b"b", [30], 31)]
    assert caches(kit, *circle, attention(kit, 30, 30, 31)) == (Cache(None, None),)


def test_linear_attention_keeps_a_state(kit: ModuleType) -> None:
    main = {1: ("<i", 4), 2: ("<i", 8), 3: ("<i", 16), 4: ("<i", 32)}
    state = kit.op(100, main, b"state", [0], 50, type_=LINEAR_ATTENTION)
    graph = read_graph(kit.graph([*kit.head(), state]))
    assert (graph.state_values, graph.caches) == (8 * 16 * 32, ())
    assert LINEAR_ATTENTION in graph.operators
