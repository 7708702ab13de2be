"""What a build of MNN was made with: only what its files prove."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.bundle_traits import Traits, read_traits
from harness.payload.elf import read_elf

PLAIN = b"\0Can't Find type=%d backend, use %d instead\n\0"


@pytest.fixture
def traits(elf_kit: ModuleType, tmp_path: Path) -> Any:
    """Write files of these fields, and read their traits."""

    def of(files: dict[str, dict[str, Any]], platform: str = "android", abi: str = "arm64-v8a") -> Traits:
        for name, fields in files.items():
            kind = "library" if ".so" in name else "program"
            (tmp_path / name).write_bytes(elf_kit.Elf(**{"abi": abi, "kind": kind, **fields}).bytes())
        elves = {name: read_elf(tmp_path / name) for name in files}
        return read_traits(elves, platform, abi)  # type: ignore[arg-type]

    return of


def test_a_whole_engine_says_what_it_was_built_with(elf_kit: ModuleType, traits: Any) -> None:
    help_text = (
        b"usage: %s [options]\n\0  -h, --help\n\0  -pg <pp,tg>   (default: %s)\n\0  --profile      Enable it\n\0"
    )
    found = traits({"libMNN.so": {"data": elf_kit.ENGINE}, "llm_bench": {"data": help_text, "needed": ("libMNN.so",)}})
    assert found == Traits(
        engine="MNN",
        engine_version="4.5.6",
        backends=("cpu",),
        llm=True,
        transformer_fuse=True,
        low_memory=True,
        logcat=False,
        debug_build=False,
        llm_bench_options=("-h", "--help", "-pg", "--profile"),
    )


def test_the_engine_in_mnns_own_python_package_is_known_for_what_it_is() -> None:
    found = importlib.util.find_spec("_mnncengine")
    assert found is not None
    assert found.origin is not None
    elf = read_elf(Path(found.origin))
    traits = read_traits({elf.path.name: elf}, "linux", elf.abi or "")
    assert (traits.engine, traits.engine_version) == ("MNN", importlib.metadata.version("MNN"))
    assert (traits.backends, traits.llm, traits.transformer_fuse, traits.low_memory, traits.debug_build) == (
        ("cpu",),
        True,
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("version", "abi", "expected"),
    [
        (b"3.6.1", "arm64-v8a", (False, False, False)),
        (b"3.6.1", "armeabi-v7a", (False, False, None)),
        (b"3.0.0", "arm64-v8a", (False, False, None)),
        (b"2.8.1", "arm64-v8a", (None, None, None)),
        (b"3.7.0", "arm64-v8a", (None, None, None)),
    ],
)
def test_a_message_that_is_not_there_proves_something_only_in_releases_that_were_looked_up(
    traits: Any, version: bytes, abi: str, expected: tuple[bool | None, ...]
) -> None:
    found = traits({"libMNN.so": {"data": PLAIN + version + b"\0"}}, abi=abi)
    assert (found.llm, found.transformer_fuse, found.low_memory) == expected
    assert found.engine_version == version.decode()


def test_two_versions_in_one_engine_are_none(traits: Any) -> None:
    found = traits({"libMNN.so": {"data": PLAIN + b"3.6.1\0001.2.13\0"}})
    assert (found.engine, found.engine_version, found.transformer_fuse) == ("MNN", None, None)


def test_the_version_is_what_the_engine_returns_as_its_own(traits: Any) -> None:
    code = b"\x48\x8d\x05\x01\0\0\0\xc33.5.0\0"
    engine = {"function": b"_ZN3MNN10getVersionEv", "code": code, "data": PLAIN + b"1.2.13\0"}
    assert traits({"libMNN.so": engine}, abi="x86_64").engine_version == "3.5.0"


def test_the_version_of_the_http_library_in_it_is_none(traits: Any) -> None:
    assert traits({"libMNN.so": {"data": PLAIN + b"0.26.0\0003.6.1\0"}}).engine_version == "3.6.1"


def test_without_an_engine_nothing_is_known(traits: Any) -> None:
    assert traits({"llm_bench": {}, "libother.so": {"data": b"\x003.6.1\0"}}) == Traits()


def test_backends_are_built_in_or_lie_in_libraries_of_their_own(elf_kit: ModuleType, traits: Any) -> None:
    vulkan = b"vkGetInstanceProcAddr\0"
    found = traits({
        "libMNN.so": {"data": PLAIN + vulkan + b"libQnnHtp.so\0"},
        "libMNN_CL.so": {"data": elf_kit.OPENCL},
        "llm_bench": {"needed": ("libMNN.so", "libMNN_CL.so")},
    })  # fmt: skip
    assert found.backends == ("cpu", "opencl", "vulkan", "qnn")
    assert (found.separate, found.unloaded) == ({"opencl": "libMNN_CL.so"}, {})


def test_a_separate_backend_counts_as_loaded_where_a_way_leads_to_it(elf_kit: ModuleType, traits: Any) -> None:
    backend = {"data": elf_kit.OPENCL, "needed": ("libMNN.so",)}
    engine = {"data": PLAIN, "needed": ("libc.so",)}
    found = traits({
        "libMNN.so": engine,
        "libMNN_CL.so": backend,
        "libjni.so": {"needed": ("libMNN_CL.so",)},  # which nothing loads
        "libllm.so": {"needed": ("libMNN.so", "libMNN_CL.so")},
        "llm_bench": {"needed": ("libMNN.so",)},
        "llm_demo": {"needed": ("libllm.so",)},
        "farm_runner": {"needed": ("libMNN.so",), "data": b"\0libMNN_CL.so\0"},
    })  # fmt: skip
    assert found.unloaded == {"libMNN_CL.so": ("llm_bench",)}


@pytest.mark.parametrize(
    ("data", "platform", "expected"),
    [
        (b"\0__android_log_print\0", "android", True),
        (b"", "android", False),
        (b"\0__android_log_print\0", "linux", False),
    ],
)
def test_output_goes_to_logcat_where_the_engine_calls_it(
    traits: Any, data: bytes, platform: str, expected: bool
) -> None:
    assert traits({"libMNN.so": {"data": PLAIN + data}}, platform).logcat is expected


def test_a_static_program_does_not_tell_whether_it_writes_to_logcat(traits: Any) -> None:
    found = traits({"farm_runner": {"data": PLAIN, "static": True}})
    assert (found.engine, found.logcat) == ("MNN", None)


def test_assertions_tell_a_debug_build(traits: Any) -> None:
    assert traits({"libMNN.so": {"data": PLAIN + b"Error for %s, %d\n\0"}}).debug_build is True


def test_what_is_not_loaded_is_not_looked_at(elf_kit: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "libMNN.so"
    path.write_bytes(elf_kit.library("libMNN.so") + PLAIN)
    assert read_traits({"libMNN.so": read_elf(path)}, "android", "arm64-v8a").engine is None
