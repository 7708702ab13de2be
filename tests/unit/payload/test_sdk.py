"""What is found in an SDK of MNN, in each layout, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from harness.core.errors import ConfigError
from harness.payload.sdk import Headers, find_headers, find_variants

DEFINE = "#define MNN_VERSION_MAJOR 4\n#define MNN_VERSION_MINOR  5\n#define MNN_VERSION_PATCH 6\n"
UNKNOWN = Headers(Path("include"), Path("include"), None)


def write_headers(folder: Path, llm: str = "include", define: str = DEFINE) -> Path:
    for path, text in (
        ("include/MNN/Interpreter.hpp", ""),
        ("include/MNN/MNNDefine.h", define),
        (f"{llm}/llm/llm.hpp", ""),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize("llm", ["include", "transformers/llm/engine/include"])
def test_headers_of_an_installed_build_and_of_the_source_are_found(tmp_path: Path, llm: str) -> None:
    write_headers(tmp_path, llm)
    assert find_headers(tmp_path) == Headers(tmp_path / "include", tmp_path / llm, "4.5.6")


def test_headers_below_the_folder_that_an_archive_unpacks_to_are_found(tmp_path: Path) -> None:
    write_headers(tmp_path / "mnn_4.5.6")
    assert find_headers(tmp_path).engine == tmp_path / "mnn_4.5.6" / "include"


def test_a_build_names_its_source(tmp_path: Path) -> None:
    source = write_headers(tmp_path / "source", "transformers/llm/engine/include")
    build = tmp_path / "build"
    build.mkdir()
    (build / "CMakeCache.txt").write_text(f"FOO:BOOL=ON\nCMAKE_HOME_DIRECTORY:INTERNAL={source}\n")
    assert find_headers(build).engine == source / "include"


def test_headers_that_are_named_count_before_those_of_the_sdk(tmp_path: Path) -> None:
    sdk, named = write_headers(tmp_path / "sdk"), write_headers(tmp_path / "named", define="")
    assert find_headers(sdk, named) == Headers(named / "include", named / "include", None)


def test_an_sdk_without_headers_says_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no headers of MNN \(MNN/Interpreter.hpp\): name MNN's source of the"):
        find_headers(tmp_path)
    (write_headers(tmp_path) / "include" / "llm" / "llm.hpp").unlink()
    with pytest.raises(ConfigError, match=r"without those of its language models \(llm/llm.hpp\).*-DMNN_BUILD_LLM=ON"):
        find_headers(tmp_path)


def release(kit: ModuleType, **changes: bytes | None) -> dict[str, bytes]:
    """What an Android release holds; a change of ``None`` leaves a file out."""
    llm = kit.Elf(needed=("libMNN.so", "libMNN_Express.so", "libc.so"), soname="libllm.so")
    files = {
        "libMNN.so": kit.Elf(needed=("libc++_shared.so", "libc.so"), soname="libMNN.so", data=kit.ENGINE).bytes(),
        "libMNN_Express.so": kit.Elf(soname="libMNN_Express.so").bytes(),
        "libMNN_CL.so": kit.Elf(soname="libMNN_CL.so", data=kit.OPENCL).bytes(),
        "libllm.so": llm.bytes(),
        "libmnncore.so": kit.Elf(soname="libmnncore.so").bytes(),
    }
    changed = {name.replace("_so", ".so"): data for name, data in changes.items()}
    return {f"mnn/arm64-v8a/{name}": data for name, data in (files | changed).items() if data is not None}


def test_a_release_brings_all_that_the_runner_needs_and_nothing_for_java(elf_kit: ModuleType, tmp_path: Path) -> None:
    folder = elf_kit.write(tmp_path, release(elf_kit))
    [variant] = find_variants(folder, UNKNOWN)
    assert (variant.abi, variant.platform, variant.needs_cxx_runtime) == ("arm64-v8a", "android", True)
    assert sorted(variant.files) == ["libMNN.so", "libMNN_CL.so", "libMNN_Express.so", "libllm.so"]


def test_its_own_cxx_library_is_taken_when_it_brings_one(elf_kit: ModuleType, tmp_path: Path) -> None:
    own = elf_kit.Elf(soname="libc++_shared.so").bytes()
    [variant] = find_variants(elf_kit.write(tmp_path, release(elf_kit, **{"libc++_shared_so": own})), UNKNOWN)
    assert not variant.needs_cxx_runtime
    assert "libc++_shared.so" in variant.files


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"libMNN_so": None}, "holds no libMNN.so: name the folder that holds it"),
        (
            {"libMNN_Express_so": None},
            r"libMNN_Express.so is missing in .*, which libllm.so needs: add libMNN_Express.so",
        ),
        ({"libMNN_so": b"version https://git-lfs.github.com/spec/v1\n"}, "is a Git LFS pointer"),
        ({"libllm_so": b"\x7fELF cut"}, "is cut off|is damaged"),
    ],
)
def test_what_is_missing_or_broken_is_named(
    elf_kit: ModuleType, tmp_path: Path, changes: dict[str, bytes | None], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        find_variants(elf_kit.write(tmp_path, release(elf_kit, **changes)), UNKNOWN)


@pytest.mark.parametrize("version", [b"3.6.1", b"4.5.6"])
def test_an_engine_without_language_models_is_refused(elf_kit: ModuleType, tmp_path: Path, version: bytes) -> None:
    engine = elf_kit.ENGINE.replace(b"llm_config.json\0", b"").replace(b"4.5.6", version)
    bare = elf_kit.Elf(soname="libMNN.so", data=engine).bytes()
    folder = elf_kit.write(tmp_path, release(elf_kit, libMNN_so=bare, libllm_so=None))
    with pytest.raises(ConfigError, match=r"without language models: libllm.so is missing: build MNN with"):
        find_variants(folder, UNKNOWN)


def test_headers_of_another_version_are_refused(elf_kit: ModuleType, tmp_path: Path) -> None:
    folder = elf_kit.write(tmp_path, release(elf_kit))
    with pytest.raises(ConfigError, match=r"are of MNN 4.5.5, .* of 4.5.6: name the headers of 4.5.6 by --headers"):
        find_variants(folder, Headers(Path("include"), Path("include"), "4.5.5"))
    assert find_variants(folder, Headers(Path("include"), Path("include"), "4.5.6"))


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder: unpack the archive"):
        find_variants(tmp_path / "sdk.zip", UNKNOWN)
