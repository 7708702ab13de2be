"""ONNX files read without ONNX: what is in them, and each way in which one is none."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.payload.onnx_file import External, OnnxError, Value, parse_onnx, read_onnx


def code_of(path: Path) -> str:
    with pytest.raises(OnnxError) as caught:
        read_onnx(path)
    return caught.value.code


def test_inputs_outputs_and_operators_are_read(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    read = read_onnx(kit.relu(tmp_path / "m.onnx", ("N", 3, "H", 8)))
    assert read.inputs == (Value("x", "float32", (-1, 3, -1, 8), ("N", "H")),)
    assert read.inputs[0].open
    assert [value.name for value in read.outputs] == ["y"]
    assert (dict(read.operators), read.opset, read.ir_version) == ({"Relu": 1}, 13, 8)
    assert not read.undefined
    assert not read.subgraphs


def test_weights_are_no_inputs(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    inputs = [kit.value("x"), kit.value("w")]  # old exporters list weights among the inputs
    weights = {"w": np.ones((1, 3, 8, 8), np.float32)}
    path = kit.save(tmp_path / "m.onnx", [kit.node("Add", ["x", "w"], ["y"])], inputs, [kit.value("y")], weights)
    assert [value.name for value in read_onnx(path).inputs] == ["x"]


def test_operators_of_others_and_in_subgraphs_are_counted(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    then = kit.graph([kit.node("Fancy", ["x"], ["a"], domain="acme")], "t", [], [kit.value("a")])
    other = kit.graph([kit.node("Add", ["x", "gone"], ["b"])], "e", [], [kit.value("b")])
    nodes = [kit.node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    inputs = [kit.value("x"), kit.value("c", (), kit.BOOL)]
    read = read_onnx(kit.save(tmp_path / "m.onnx", nodes, inputs, [kit.value("y")], domain="acme"))
    assert dict(read.operators) == {"If": 1, "acme::Fancy": 1, "Add": 1}
    assert read.undefined == [("gone", "Add")]
    assert read.subgraphs
    assert read.inputs[1] == Value("c", "bool", ())


def test_weights_in_a_file_of_their_own_are_found(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    where = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    nodes = [kit.node("Conv", ["x", "w"], ["y"])]
    path = kit.save(tmp_path / "m.onnx", nodes, [kit.value("x")], [kit.value("y", None)], {"w": kit.KERNEL}, **where)
    assert read_onnx(path).external == [External("w", "m.data", 0, kit.KERNEL.nbytes)]


def test_every_beginning_of_a_model_is_cut_off_or_none(onnx_kit: ModuleType, tmp_path: Path) -> None:
    whole = onnx_kit.classifier(tmp_path / "m.onnx").read_bytes()
    for length in range(3, len(whole), 97):
        with pytest.raises(OnnxError) as caught:
            parse_onnx(memoryview(whole[:length]))
        assert caught.value.code == "onnx_cut_off"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"PK\x03\x04rest", "torch.onnx.export"),
        (b"    TFL3", "TensorFlow Lite"),
        (b"<!DOCTYPE html>", "download it again"),
        (b"hello world\n", "which no ONNX model has"),
        (bytes(range(256)), "no ONNX model"),
    ],
)
def test_what_is_no_onnx_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(OnnxError, match=says) as caught:
        read_onnx(path)
    assert caught.value.code == "not_onnx"


def test_a_model_without_operators_is_empty(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    assert code_of(kit.save(tmp_path / "m.onnx", [], [kit.value("x")], [kit.value("x")])) == "graph_empty"


@given(st.binary(max_size=400))
def test_no_bytes_bring_the_reader_down(data: bytes) -> None:
    with contextlib.suppress(OnnxError):
        parse_onnx(memoryview(data))
