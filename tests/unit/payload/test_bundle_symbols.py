"""Files of one build have what they want of each other."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.bundle_symbols import Unresolved, readable, unresolved
from harness.payload.elf import read_elf

TUNE, HOST = "_ZN3MNN11Transformer3Llm6tuningEi", "_ZNK3MNN6Tensor4hostEv"


@pytest.fixture
def nowhere(elf_kit: ModuleType, tmp_path: Path) -> Any:
    def of(files: dict[str, dict[str, Any]], abi: str = "arm64-v8a") -> list[Unresolved]:
        for name, fields in files.items():
            kind = "library" if ".so" in name else "program"
            (tmp_path / name).write_bytes(elf_kit.Elf(**{"abi": abi, "kind": kind, **fields}).bytes())
        return list(unresolved({name: read_elf(tmp_path / name) for name in files}))

    return of


@pytest.mark.parametrize("abi", ["arm64-v8a", "armeabi-v7a"])
def test_what_one_wants_another_has(nowhere: Any, abi: str) -> None:
    files = {"llm_bench": {"wants": (TUNE, HOST)}, "libllm.so": {"has": (TUNE,), "wants": (HOST,)}}
    assert nowhere(files | {"libMNN.so": {"has": (HOST,)}}, abi) == []
    assert nowhere(files | {"libMNN.so": {"wants": (HOST,)}}, abi) == [
        Unresolved("llm_bench", ("MNN::Tensor::host",)),
        Unresolved("libllm.so", ("MNN::Tensor::host",)),
        Unresolved("libMNN.so", ("MNN::Tensor::host",)),
    ]


def test_what_is_not_mnns_and_what_may_be_nowhere_does_not_count(nowhere: Any) -> None:
    files = {"llm_bench": {"wants": ("printf", "_ZNSt6thread4joinEv"), "weak": (TUNE,)}, "libMNN.so": {"has": (HOST,)}}
    assert nowhere(files) == []


def test_where_one_file_does_not_tell_what_it_has_nothing_is_said(nowhere: Any) -> None:
    wants, no_sections = {"wants": (HOST,)}, {"extra": {"shnum": 0}}
    assert nowhere({"llm_bench": wants, "libMNN.so": no_sections}) == []
    assert len(nowhere({"llm_bench": wants, "farm_runner": {"static": True}})) == 1


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        (b"_ZN3MNN6Tensor4hostEv", "MNN::Tensor::host"),
        (b"_ZNK3MNN6Tensor4hostEv", "MNN::Tensor::host"),
        (b"_ZN3MNN8AutoTimeC1EiPKc", "MNN::AutoTime::AutoTime"),
        (b"_ZN3MNN8AutoTimeD2Ev", "MNN::AutoTime::~AutoTime"),
        (b"_ZN3MNN99short", "MNN::short"),
        (b"main", "main"),
    ],
)
def test_a_mangled_name_is_written_as_people_do(mangled: bytes, name: str) -> None:
    assert readable(mangled) == name
