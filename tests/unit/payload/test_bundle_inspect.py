"""Good bundles are told by their facts, bad ones by a code and what to do."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.bundle_inspect import BundleReport, inspect_folder
from harness.payload.model_problem import Problem

Inspect = Callable[..., BundleReport]
CUT, TEXT = "elf_truncated", b"hello\n"


@pytest.fixture
def inspect(elf_kit: ModuleType, tmp_path: Path) -> Inspect:
    """Write files into a folder and inspect it."""

    def write_and_inspect(files: dict[str, bytes], **options: Any) -> BundleReport:
        return inspect_folder(elf_kit.write(tmp_path, files), **options)

    return write_and_inspect


def told(report: BundleReport) -> list[tuple[str, str]]:
    return [(problem.check, problem.severity) for problem in report.problems]


def only(report: BundleReport) -> Problem:
    [problem] = report.problems
    assert problem.reason.code == "bundle_mismatch"
    return problem


def test_a_good_bundle_has_no_problem_and_these_facts(elf_kit: ModuleType, inspect: Inspect) -> None:
    report = inspect(elf_kit.build())
    assert (report.ok, report.problems) == (True, ())
    [variant] = report.variants
    assert report.facts == {
        "engine": "MNN",
        "engine_version": "4.5.6",
        "backends": ["cpu"],
        "runners": ["llm_bench", "llm_demo"],
        "variants": [
            {
                "abi": "arm64-v8a",
                "platform": "android",
                "folder": ".",
                "files": ["libMNN.so", "llm_bench", "llm_demo"],
                "programs": {"llm_bench": "llm_bench", "llm_demo": "llm_demo"},
                "backends": ("cpu",),
                "cpu_features": (),
                "min_sdk": 24,
                "page_bytes": 16384,
                "size_bytes": variant.size_bytes,
                "stripped": True,
                "debug_info": False,
                "traits": {
                    "engine": "MNN",
                    "engine_version": "4.5.6",
                    "separate": {},
                    "unloaded": {},
                    "llm": True,
                    "transformer_fuse": True,
                    "low_memory": True,
                    "logcat": False,
                    "debug_build": False,
                    "llm_bench_options": None,
                },
            }
        ],
        "left_out": [],
    }
    assert json.loads(json.dumps(report.facts))["variants"][0]["min_sdk"] == 24
    assert variant.size_bytes == sum(file.stat().st_size for file in report.path.iterdir())


def test_a_static_runner_alone_is_a_bundle_and_runs_everywhere(elf_kit: ModuleType, inspect: Inspect) -> None:
    runner = elf_kit.program(static=True, android_api=None, tls_align=8, align=65536)
    report = inspect({"farm_runner": runner})
    [variant] = report.variants
    assert report.problems == ()
    assert (variant.platform, variant.min_sdk, variant.page_bytes, variant.programs) == (
        None,
        None,
        65536,
        {"farm_runner": "farm_runner"},
    )


def test_an_empty_folder(inspect: Inspect) -> None:
    problem = only(inspect({"README.md": TEXT}))
    assert (problem.check, problem.warning) == ("bundle_empty", False)
    assert problem.detail.endswith(" holds no program and no library")
    assert problem.fix == "name the folder that MNN was built in, or an unpacked release of it"


def test_no_folder(inspect: Inspect, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)
    assert only(inspect_folder(tmp_path / "file")).detail == f"{tmp_path}/file is not a folder"
    problem = only(inspect_folder(tmp_path / "none"))
    assert (problem.detail, problem.fix) == (f"there is no folder {tmp_path}/none", "check the path")


def test_another_abi_beside_the_programs(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = elf_kit.build()
    files["libllm.so"] = elf_kit.library("libllm.so", abi="x86_64")
    problem = only(inspect(files))
    assert (problem.check, problem.severity) == ("bundle_wrong_abi", "error")
    assert problem.detail == f"{tmp_path}/libllm.so is for x86_64, the files beside it are for arm64-v8a"
    assert problem.fix == "put the files of each ABI into a folder of its name, e.g. arm64-v8a"


def test_another_abi_in_the_folder_of_one(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = {f"arm64-v8a/{name}": data for name, data in elf_kit.build().items()}
    files["arm64-v8a/libMNN.so"] = elf_kit.library("libMNN.so", abi="armeabi-v7a")
    report = inspect(files)
    assert told(report) == [("bundle_wrong_abi", "error"), ("library_missing", "error")]
    assert report.problems[0].detail == (
        f"{tmp_path}/arm64-v8a/libMNN.so is for armeabi-v7a and lies in the folder of arm64-v8a"
    )
    assert report.problems[0].fix == "build it for arm64-v8a, or move it to a folder named armeabi-v7a"


def test_a_cpu_that_no_phone_has(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({**elf_kit.build(), "libold.so": elf_kit.library("libold.so", abi="mips")}))
    assert problem.check == "bundle_wrong_abi"
    assert problem.detail.endswith("libold.so is for MIPS, which is the CPU of no phone")
    assert problem.fix == "build it for arm64-v8a"


def test_the_library_that_is_forgotten_most(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    problem = only(inspect(elf_kit.build(needed=("libMNN.so", "libc++_shared.so", "libc.so"))))
    assert (problem.check, problem.severity) == ("library_missing", "error")
    assert problem.detail == (
        f"{tmp_path}/libMNN.so, {tmp_path}/llm_bench, {tmp_path}/llm_demo need libc++_shared.so, "
        "which is not in the folder and not on every Android"
    )
    assert "sysroot/usr/lib/aarch64-linux-android/libc++_shared.so" in problem.fix


def test_a_missing_library_of_mnn_itself(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = elf_kit.build()
    files["llm_demo"] = elf_kit.program(needed=("libMNN.so", "libMNN_Express.so"))
    problem = only(inspect(files))
    assert problem.check == "library_missing"
    assert problem.detail.startswith(f"{tmp_path}/llm_demo needs libMNN_Express.so, ")
    assert problem.fix == "add libMNN_Express.so of the same MNN build for arm64-v8a"


def test_programs_and_engine_of_different_builds(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = elf_kit.build()
    files["llm_bench"] = elf_kit.program(wants=("_ZN3MNN11Transformer3Llm6tuningEi", "_ZN3MNN3newEv", "printf"))
    problem = only(inspect(files))
    assert (problem.check, problem.severity) == ("symbol_missing", "error")
    assert problem.detail == (
        f"{tmp_path}/llm_bench calls MNN::Transformer::Llm::tuning and 1 more, which no file beside it has"
    )
    assert problem.fix == "take all files from one build of MNN"
    files["libMNN.so"] = elf_kit.library("libMNN.so", needed=("libMNN_Express.so",), data=elf_kit.ENGINE)
    assert told(inspect(files)) == [("library_missing", "error")]  # that one may have it


def test_a_library_of_the_phones_maker_is_a_warning(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({**elf_kit.build(), "libcl.so": elf_kit.library("libcl.so", needed=("libOpenCL.so",))}))
    assert (problem.check, problem.severity) == ("vendor_library", "warning")
    assert problem.fix.startswith("build MNN with -DMNN_USE_SYSTEM_LIB=OFF")


@pytest.mark.parametrize("name", ["libOpenCL.so", "libvulkan.so"])
def test_a_copy_of_the_phones_own_library(elf_kit: ModuleType, inspect: Inspect, name: str) -> None:
    problem = only(inspect({**elf_kit.build(), name: elf_kit.library(name)}))
    assert (problem.check, problem.severity) == ("system_library_hidden", "warning")
    assert problem.detail.endswith(f"would be loaded instead of the phone's own {name}, which fits its drivers")
    assert problem.fix == "leave it out: it is on the phone"


def test_four_kilobytes_are_a_warning_and_for_phones_with_sixteen_an_error(
    elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    files = {**elf_kit.build(), "libMNN.so": elf_kit.library("libMNN.so", data=elf_kit.ENGINE, align=4096)}
    problem = only(inspect(files))
    assert (problem.check, problem.severity) == ("page_alignment", "warning")
    assert problem.detail == (
        f"{tmp_path} (arm64-v8a): aligned to less than 16384 bytes: libMNN.so (4096); "
        "phones with memory pages of 16 KB do not load it"
    )
    assert "-Wl,-z,max-page-size=16384" in problem.fix
    assert only(inspect(files, page_bytes=16384)).severity == "error"
    assert inspect(files, page_bytes=4096).problems == ()
    assert inspect(files).variants[0].page_bytes == 4096


def test_small_pages_are_fine_for_32_bits(elf_kit: ModuleType, inspect: Inspect) -> None:
    report = inspect(elf_kit.build(abi="armeabi-v7a", align=4096))
    assert (report.problems, report.variants[0].page_bytes) == ((), None)


@pytest.mark.parametrize(("abi", "align", "least"), [("arm64-v8a", 8, 64), ("armeabi-v7a", 16, 32)])
@pytest.mark.parametrize("static", [True, False])
def test_thread_local_data_that_android_refuses(
    elf_kit: ModuleType, inspect: Inspect, abi: str, align: int, least: int, static: bool
) -> None:
    runner = elf_kit.program(abi=abi, static=static, needed=("libc.so",), tls_align=align)
    problem = only(inspect({"farm_runner": runner}))
    assert (problem.check, problem.severity) == ("tls_alignment", "error")
    assert problem.detail.endswith(f"aligns its thread-local data to {align} bytes: Android 10 and later stop it, "
                                   f"they want {least} for {abi}")  # fmt: skip
    assert problem.fix == "build it with NDK r21 or newer for API level 29 or later"
    assert inspect({"farm_runner": elf_kit.program(abi=abi, static=static, needed=(), tls_align=64)}).problems == ()


def test_text_relocations(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({**elf_kit.build(), "libold.so": elf_kit.library("libold.so", tags=[(4, 0), (22, 0)])}))
    assert (problem.check, problem.severity, problem.fix) == (
        "text_relocations",
        "error",
        "build all its code with -fPIC",
    )


def test_a_program_for_a_fixed_address(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({**elf_kit.build(), "farm_runner": elf_kit.program(position_independent=False)}))
    assert (problem.check, problem.severity, problem.fix) == (
        "not_position_independent",
        "error",
        "build it with -fPIE -pie",
    )


def test_a_dynamic_linker_that_no_phone_has(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({"farm_runner": elf_kit.program(interpreter="/lib/ld-musl-aarch64.so.1", needed=())}))
    assert (problem.check, problem.severity) == ("interpreter_unknown", "error")
    assert problem.detail.endswith("asks for the dynamic linker /lib/ld-musl-aarch64.so.1, which no phone has")
    assert problem.fix == "build it with the NDK, or link it statically"


def host(elf_kit: ModuleType) -> dict[str, bytes]:
    given = {"abi": "x86_64", "android_api": None, "align": 4096, "tls_align": 8}
    return {
        "libMNN.so": elf_kit.library("libMNN.so", needed=("libstdc++.so.6", "libc.so.6"), data=elf_kit.ENGINE, **given),
        "llm_bench": elf_kit.program(interpreter=elf_kit.GLIBC_LINKER, needed=("libMNN.so", "libc.so.6"), **given),
        "llm_demo": elf_kit.program(interpreter=elf_kit.GLIBC_LINKER, needed=("libMNN.so", "libc.so.6"), **given),
    }


def test_a_build_for_this_computer_is_a_warning_and_nothing_of_android_is_asked_of_it(
    elf_kit: ModuleType, inspect: Inspect
) -> None:
    report = inspect(host(elf_kit))
    problem = only(report)
    assert (problem.check, problem.severity, report.ok) == ("host_build", "warning", True)
    assert problem.fix == "for phones, build MNN with the NDK"
    assert (report.variants[0].platform, report.variants[0].min_sdk) == ("linux", None)


def test_a_library_that_this_computer_may_have_is_a_warning(elf_kit: ModuleType, inspect: Inspect) -> None:
    curl = elf_kit.library("libx.so", abi="x86_64", android_api=None, needed=("libcurl.so.4", "libc.so.6"))
    report = inspect({**host(elf_kit), "libx.so": curl})
    assert told(report) == [("host_build", "warning"), ("vendor_library", "warning")]
    assert report.problems[1].detail.endswith("/libx.so needs libcurl.so.4, which only some PCs have")


def test_a_library_of_linux_among_those_of_android(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = elf_kit.build()
    files["libMNN.so"] = elf_kit.library("libMNN.so", android_api=None, needed=("libc.so.6",), data=elf_kit.ENGINE)
    report = inspect(files)
    assert told(report) == [("bundle_wrong_abi", "error"), ("library_missing", "error")]
    assert report.problems[0].detail == (f"{tmp_path}/libMNN.so is built for Linux, the files beside it for Android")
    assert report.problems[0].fix == "take all files from one build"
    assert report.problems[1].fix == "build it with the NDK: libc.so.6 is a library of Linux"


@pytest.mark.parametrize(
    ("content", "check", "says", "fix"),
    [
        (TEXT, "not_an_elf", "is a text file, not a program or shared library", "put the real file there"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "not_an_elf", "is a Git LFS pointer", "run: git lfs pull"),
        (b"", "not_an_elf", "is empty", "copy or build it again"),
        (b"\x7fELF\x02\x01\x01", "elf_truncated", "is cut off: it has 7 bytes and its header goes to byte 64",
         "copy or build it again"),
        (b"\x7fELF\x07\x01\x01" + bytes(90), "elf_malformed", "is damaged: its first bytes name no word size",
         "copy or build it again"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["libextra.so", "farm_runner"])
def test_a_file_that_is_no_library_and_no_program(
    elf_kit: ModuleType, inspect: Inspect, name: str, content: bytes, check: str, says: str, fix: str
) -> None:
    problem = only(inspect({**elf_kit.build(), name: content}))
    assert (problem.check, problem.severity, problem.fix) == (check, "error", fix)
    assert f"/{name} {says}" in problem.detail


def test_half_a_library(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = elf_kit.build()
    whole = files["libMNN.so"]
    files["libMNN.so"] = whole[: len(whole) // 2]
    report = inspect(files)
    assert told(report) == [("elf_truncated", "error"), ("library_missing", "error")]
    said = f"{tmp_path}/libMNN.so is cut off: it has {len(whole) // 2} bytes and "
    assert report.problems[0].detail.startswith(said)
    assert report.problems[0].fix == "copy or build it again"


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside.so", "/nowhere/libMNN.so"])
def test_a_link_out_of_the_folder(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path, target: str) -> None:
    folder = elf_kit.write(tmp_path / "bundle", elf_kit.build())
    (tmp_path / "outside.so").write_bytes(elf_kit.library("outside.so"))
    (folder / "libextra.so").symlink_to(target)
    problem = only(inspect_folder(folder))
    assert (problem.check, problem.severity) == ("link_leads_out", "error")
    assert problem.detail == f"{folder}/libextra.so is a symbolic link that leads out of the folder ({target})"
    assert problem.fix == "copy the file into the folder"


def test_a_folder_that_is_a_link_out(elf_kit: ModuleType, tmp_path: Path) -> None:
    elf_kit.write(tmp_path / "real", elf_kit.build(abi="armeabi-v7a"))
    folder = elf_kit.write(tmp_path / "bundle", elf_kit.build())
    (folder / "armeabi-v7a").symlink_to("../real")
    assert only(inspect_folder(folder)).check == "link_leads_out"


def test_links_inside_are_followed_and_those_to_nothing_are_told(elf_kit: ModuleType, tmp_path: Path) -> None:
    folder = elf_kit.write(tmp_path / "bundle", {"libMNN.so.3": elf_kit.build()["libMNN.so"], **elf_kit.build()})
    (folder / "libMNN.so").unlink()
    (folder / "libMNN.so").symlink_to("libMNN.so.3")
    report = inspect_folder(folder)
    assert report.problems == ()
    assert [file.name for file in report.variants[0].files] == ["libMNN.so", "libMNN.so.3", "llm_bench", "llm_demo"]
    (folder / "libgone.so").symlink_to("libgone.so.1")
    (folder / "libloop.so").symlink_to("libloop.so")
    assert told(inspect_folder(folder)) == [("file_unreadable", "error"), ("file_unreadable", "error")]


def test_libraries_without_a_program_are_an_sdk(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    report = inspect({f"mnn/{abi}/libMNN.so": elf_kit.library("libMNN.so", abi=abi, data=elf_kit.ENGINE)
                      for abi in ("arm64-v8a", "armeabi-v7a")})  # fmt: skip
    problem = only(report)
    assert (problem.check, problem.severity) == ("no_runner", "error")
    programs = "farm_runner, llm_bench, llm_demo, ModuleBasic.out, MNNV2Basic.out, benchmark.out"
    assert problem.detail == f"{tmp_path} holds libraries, but none of {programs}"
    assert problem.fix == f"build our runner against it: mnn-farm bins build --sdk {tmp_path}"
    assert [variant.abi for variant in report.variants] == ["arm64-v8a", "armeabi-v7a"]


def test_static_libraries_are_an_sdk_too(inspect: Inspect, tmp_path: Path) -> None:
    problem = only(inspect({"libMNN.a": b"!<arch>\n"}))
    assert (problem.check, problem.fix) == (
        "no_runner",
        f"build our runner against it: mnn-farm bins build --sdk {tmp_path}",
    )


def test_libraries_that_are_not_mnns_have_no_runner(elf_kit: ModuleType, inspect: Inspect) -> None:
    problem = only(inspect({"libother.so": elf_kit.library("libother.so")}))
    assert (problem.check, problem.fix) == (
        "no_runner",
        "build MNN with -DMNN_BUILD_LLM=ON and add its llm_bench and llm_demo",
    )


def test_one_abi_without_a_program_is_left_out(elf_kit: ModuleType, inspect: Inspect) -> None:
    files = {f"arm64-v8a/{name}": data for name, data in elf_kit.build().items()}
    files["x86_64/libMNN.so"] = elf_kit.library("libMNN.so", abi="x86_64", data=elf_kit.ENGINE)
    problem = only(inspect(files))
    assert (problem.check, problem.severity) == ("no_runner", "warning")
    assert problem.fix == "add a program for x86_64, or remove the folder"


@pytest.mark.parametrize(("lacking", "check"), [("llm_demo", "no_llm_demo"), ("llm_bench", "no_llm_bench")])
def test_half_of_mnns_programs(elf_kit: ModuleType, inspect: Inspect, lacking: str, check: str) -> None:
    files = elf_kit.build()
    del files[lacking]
    problem = only(inspect(files))
    assert (problem.check, problem.severity, problem.fix) == (check, "warning", f"add {lacking} of the same build")


def test_two_builds_for_one_abi(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    builds = {"old": elf_kit.build(ndk="r25"), "new": elf_kit.build()}
    problem = only(
        inspect({f"{at}/arm64-v8a/{name}": data for at, made in builds.items() for name, data in made.items()})
    )
    assert (problem.check, problem.severity) == ("variant_twice", "error")
    assert (
        problem.detail == f"{tmp_path}/new/arm64-v8a and {tmp_path}/old/arm64-v8a hold different builds for arm64-v8a"
    )
    assert problem.fix == "name one of the two folders"


def test_one_name_twice(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    files = {**elf_kit.build(), "copy/libMNN.so": elf_kit.build()["libMNN.so"]}
    assert inspect(files).problems == ()
    problem = only(inspect({**files, "copy/libMNN.so": elf_kit.library("libMNN.so", data=b"another")}))
    assert (problem.check, problem.severity) == ("file_twice", "error")
    assert problem.detail == f"{tmp_path}/libMNN.so and {tmp_path}/copy/libMNN.so have the same name and differ"
    assert problem.fix == "remove the one that does not belong to this build"


ENGINE = b"\0Can't Find type=%d backend, use %d instead\n\0003.6.1\0"


@pytest.mark.parametrize(
    ("data", "check", "option"),
    [
        (b"memory-map the kvcache", "no_llm", "-DMNN_BUILD_LLM=ON"),
        (b"llm_config.json\0", "no_transformer_fuse", "-DMNN_SUPPORT_TRANSFORMER_FUSE=ON"),
        (b"llm_config.json\0memory-map the kvcache\0__android_log_print\0", "logcat_output", "-DMNN_USE_LOGCAT=OFF"),
        (b"llm_config.json\0memory-map the kvcache\0Error for %s, %d\n\0", "debug_build", "-DCMAKE_BUILD_TYPE=Release"),
    ],
)
def test_what_mnn_was_built_with_is_told_where_it_matters(
    elf_kit: ModuleType, inspect: Inspect, data: bytes, check: str, option: str
) -> None:
    problem = only(inspect({**elf_kit.build(), "libMNN.so": elf_kit.library("libMNN.so", data=ENGINE + data)}))
    assert (problem.check, problem.severity, problem.fix) == (check, "warning", f"build MNN with {option}")


def test_a_backend_that_nothing_loads(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    report = inspect({**elf_kit.build(), "libMNN_CL.so": elf_kit.library("libMNN_CL.so", data=elf_kit.OPENCL)})
    problem = only(report)
    assert (problem.check, problem.severity) == ("separate_backend_unloaded", "warning")
    assert problem.detail == (
        f"{tmp_path} (arm64-v8a): llm_bench, llm_demo neither need nor name libMNN_CL.so: "
        "its backend would never be there"
    )
    assert problem.fix.endswith("or start it with LD_PRELOAD=libMNN_CL.so")
    assert report.facts["backends"] == ["cpu", "opencl"]


def test_debugging_information_is_told_with_its_size(elf_kit: ModuleType, inspect: Inspect) -> None:
    library = elf_kit.library("libMNN.so", data=elf_kit.ENGINE, debug=True, padding=3_200_000)
    problem = only(inspect({**elf_kit.build(), "libMNN.so": library}))
    assert (problem.check, problem.severity) == ("not_stripped", "warning")
    assert problem.detail.endswith("libMNN.so hold debugging information, 3.2 MB that no phone reads")


def test_a_library_that_is_no_ordinary_file(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libpipe.so")
    problem = only(inspect(elf_kit.build()))
    assert (problem.check, problem.severity, problem.fix) == ("file_unreadable", "error", "remove it")
    assert problem.detail == f"{tmp_path}/libpipe.so is no ordinary file"


def test_all_is_told_at_once(elf_kit: ModuleType, inspect: Inspect) -> None:
    files = elf_kit.build(needed=("libMNN.so", "libc++_shared.so"), align=4096)
    files["libtext.so"] = TEXT
    files["libcut.so"] = files["libMNN.so"][:500]
    assert told(inspect(files)) == [
        ("elf_truncated", "error"),
        ("not_an_elf", "error"),
        ("page_alignment", "warning"),
        ("library_missing", "error"),
    ]


def test_damage_anywhere_ends_in_a_report(elf_kit: ModuleType, inspect: Inspect) -> None:
    chance = random.Random(3)  # noqa: S311
    files = elf_kit.build()
    whole = files["libMNN.so"]
    checks = set()
    for _ in range(40):
        flipped = bytearray(whole)
        for _ in range(4):
            flipped[chance.randrange(len(whole))] = chance.randrange(256)
        checks |= {problem.check for problem in inspect({**files, "libMNN.so": bytes(flipped)}).problems}
    assert {"elf_truncated", "elf_malformed", "library_missing"} <= checks
