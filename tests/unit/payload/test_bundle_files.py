"""Folders of every layout are sorted by ABI, and of a build only what counts is taken."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from harness.payload.bundle_checks import BUNDLE_CHECKS, markdown_table
from harness.payload.bundle_inspect import BundleReport, inspect_folder
from harness.payload.model_problem import Problem

TWO = ("arm64-v8a", "armeabi-v7a")


def files_of(report: BundleReport) -> dict[str, list[str]]:
    return {f"{variant.abi} in {variant.folder}": [file.path for file in variant.files] for variant in report.variants}


@pytest.mark.parametrize(
    "layout",
    ["{abi}", "lib/{abi}", "libs/{abi}", "mnn_9.9.9_android_armv7_armv8_cpu_opencl_vulkan/{abi}", "{abi}/libs"],
)
def test_a_folder_for_each_abi_is_a_variant_wherever_it_lies(elf_kit: ModuleType, tmp_path: Path, layout: str) -> None:
    for abi in TWO:
        elf_kit.write(tmp_path / layout.format(abi=abi), elf_kit.build(abi=abi))
    elf_kit.write(tmp_path, {"include/MNN/Interpreter.hpp": b"#pragma once\n"})
    report = inspect_folder(tmp_path)
    folders = [layout.format(abi=abi) for abi in TWO]
    assert report.problems == ()
    assert files_of(report) == {
        f"{abi} in {folder.removesuffix('/libs')}": [f"{folder}/{n}" for n in ("libMNN.so", "llm_bench", "llm_demo")]
        for abi, folder in zip(TWO, folders, strict=True)
    }


def test_folders_of_other_names_are_split_where_each_has_one_abi(elf_kit: ModuleType, tmp_path: Path) -> None:
    for abi, folder in zip(TWO, ("build_64", "build_32"), strict=True):
        elf_kit.write(tmp_path / "android" / folder, elf_kit.build(abi=abi))
    report = inspect_folder(tmp_path)
    assert report.problems == ()
    assert list(files_of(report)) == ["arm64-v8a in android/build_64", "armeabi-v7a in android/build_32"]


def test_a_prefix_with_bin_and_lib_is_one_variant(elf_kit: ModuleType, tmp_path: Path) -> None:
    built = elf_kit.build()
    elf_kit.write(
        tmp_path,
        {"bin/llm_bench": built["llm_bench"], "bin/llm_demo": built["llm_demo"], "lib/libMNN.so": built["libMNN.so"]},
    )
    report = inspect_folder(tmp_path)
    assert report.problems == ()
    assert files_of(report) == {"arm64-v8a in .": ["lib/libMNN.so", "bin/llm_bench", "bin/llm_demo"]}
    assert [file.name for file in report.variants[0].files] == ["libMNN.so", "llm_bench", "llm_demo"]


def test_of_the_folder_of_a_build_only_what_its_programs_need_and_backends_count(
    elf_kit: ModuleType, tmp_path: Path
) -> None:
    built = elf_kit.build()
    elf_kit.write(
        tmp_path,
        {
            "CMakeCache.txt": b"",
            "libMNN.so": built["libMNN.so"],
            "llm_bench": built["llm_bench"],
            "llm_demo": elf_kit.program(needed=("libMNN.so", "libMNN_Express.so")),
            "express/libMNN_Express.so": elf_kit.library("libMNN_Express.so", needed=("libMNN.so",)),
            "source/backend/opencl/libMNN_CL.so": elf_kit.library("libMNN_CL.so", data=elf_kit.OPENCL),
            "tools/train/libMNNTrain.so": elf_kit.library("libMNNTrain.so", needed=("libgone.so",)),
            "3rd_party/libplugin.so": b"not even one",
            "CMakeFiles/3.25/libtest.so": elf_kit.library("libtest.so", abi="x86_64"),
            "timeProfile.out": elf_kit.program(abi="x86_64"),
            "CMakeFiles/MNN.dir/a.o": b"object",
        },
    )
    report = inspect_folder(tmp_path)
    assert [problem.check for problem in report.problems] == ["separate_backend_unloaded"]
    assert files_of(report) == {
        "arm64-v8a in .": [
            "libMNN.so",
            "source/backend/opencl/libMNN_CL.so",
            "express/libMNN_Express.so",
            "llm_bench",
            "llm_demo",
        ]
    }
    assert report.left_out == ("3rd_party/libplugin.so", "tools/train/libMNNTrain.so")


def test_programs_beside_the_folder_of_their_libraries_belong_to_them(elf_kit: ModuleType, tmp_path: Path) -> None:
    built = elf_kit.build()
    elf_kit.write(
        tmp_path / "build",
        {
            "arm64-v8a/libMNN.so": built["libMNN.so"],
            "llm_bench": built["llm_bench"],
            "llm_demo": built["llm_demo"],
            "dsp/libMNN_htpops_skel.so": elf_kit.library("libMNN_htpops_skel.so", abi="hexagon"),
        },
    )
    report = inspect_folder(tmp_path)
    assert report.problems == ()
    assert files_of(report) == {
        "arm64-v8a in build": [
            "build/arm64-v8a/libMNN.so",
            "build/dsp/libMNN_htpops_skel.so",
            "build/llm_bench",
            "build/llm_demo",
        ]
    }


def test_of_copies_in_the_folder_of_a_build_the_one_that_lies_highest_counts(
    elf_kit: ModuleType, tmp_path: Path
) -> None:
    installed = elf_kit.library("libMNN.so", data=elf_kit.ENGINE + b"installed")
    elf_kit.write(tmp_path, {"build.ninja": b"", **elf_kit.build(), "sdk/lib/libMNN.so": installed})
    report = inspect_folder(tmp_path)
    assert (report.problems, report.left_out) == ((), ("sdk/lib/libMNN.so",))
    assert files_of(report) == {"arm64-v8a in .": ["libMNN.so", "llm_bench", "llm_demo"]}


def test_a_broken_library_that_a_program_of_a_build_needs_is_told(elf_kit: ModuleType, tmp_path: Path) -> None:
    elf_kit.write(tmp_path, {"build.ninja": b"", **elf_kit.build(), "libMNN.so": b"INPUT(libMNN.so.3)\n"})
    assert [problem.check for problem in inspect_folder(tmp_path).problems] == ["not_an_elf", "library_missing"]


def test_libraries_alone_in_the_folder_of_a_build_are_mnns(elf_kit: ModuleType, tmp_path: Path) -> None:
    elf_kit.write(
        tmp_path,
        {
            "CMakeCache.txt": b"",
            "libMNN.so": elf_kit.library("libMNN.so", data=elf_kit.ENGINE),
            "libother.so": elf_kit.library("libother.so"),
        },
    )
    report = inspect_folder(tmp_path)
    assert [problem.check for problem in report.problems] == ["no_runner"]
    assert report.left_out == ("libother.so",)


def test_names_that_a_terminal_would_obey_are_escaped(elf_kit: ModuleType, tmp_path: Path) -> None:
    elf_kit.write(tmp_path, elf_kit.build())
    (tmp_path / "lib\x1b[2J.so").write_bytes(b"text")
    (tmp_path / os.fsdecode(b"lib\xff.so")).write_bytes(b"text")
    report = inspect_folder(tmp_path)
    says = [problem.detail.partition(" is a text file")[0] for problem in report.problems]
    assert says == [f"{tmp_path}/lib\\x1b[2J.so", f"{tmp_path}/lib\\udcff.so"]


def test_code_for_the_phones_signal_processor_goes_with_the_rest(elf_kit: ModuleType, tmp_path: Path) -> None:
    skeleton = elf_kit.library("libQnnHtpV75Skel.so", abi="hexagon", needed=("libc.so",))
    elf_kit.write(tmp_path, {**elf_kit.build(), "libQnnHtpV75Skel.so": skeleton})
    report = inspect_folder(tmp_path)
    assert report.problems == ()
    assert "libQnnHtpV75Skel.so" in [file.name for file in report.variants[0].files]


def test_every_check_has_its_row_and_only_known_ones_are_problems() -> None:
    assert markdown_table().count("\n") == len(BUNDLE_CHECKS) + 2
    assert (
        "| `library_missing` | a file needs a library that is neither in the bundle nor on every Android "
        "| add it, from the same MNN build or from the NDK, or build without it |"
    ) in markdown_table().splitlines()
    assert markdown_table() in (Path(__file__).parents[3] / "docs" / "bundles.md").read_text(encoding="utf-8")
    assert Problem("library_missing", "x").severity == "error"
    with pytest.raises(ValueError, match="no check is called 'libary_missing'"):
        Problem("libary_missing", "x")
