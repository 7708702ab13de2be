"""Device binaries from wherever they come: folders, archives, apps, and folders with a manifest of their own."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.payload.bundle_source import Inspected, inspect_source
from harness.payload.model_problem import Problem

Inspect = Callable[..., Inspected]


@pytest.fixture
def inspect(tmp_path: Path) -> Inspect:
    def look(source: Path, *, page_bytes: int | None = None) -> Inspected:
        scratch = tmp_path / f"scratch-{source.name}-{page_bytes}"
        scratch.mkdir()
        return inspect_source(source, scratch, page_bytes=page_bytes)

    return look


def zipped(file: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def only(found: Inspected) -> Problem:
    [problem] = found.problems
    return problem


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_a_build_is_the_same_in_a_folder_and_in_an_archive(
    form: str, elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    folder = elf_kit.write(tmp_path / "mnn", {f"top/arm64-v8a/{name}": data for name, data in elf_kit.build().items()})
    source = folder
    if form == "zip":
        source = zipped(
            tmp_path / "mnn.zip",
            {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()},
        )
    elif form == "tar":
        source = tmp_path / "mnn.tgz"
        with tarfile.open(source, "w:gz") as archive:
            archive.add(folder, "mnn")
    found = inspect(source)
    assert (found.ok, found.problems, found.stated) == (True, (), None)
    [variant] = found.variants
    assert (variant.abi, variant.programs) == ("arm64-v8a", {"llm_bench": "llm_bench", "llm_demo": "llm_demo"})
    assert {file.name: (found.folder / file.path).read_bytes() for file in variant.files} == elf_kit.build()
    assert (found.facts["engine"], found.facts["engine_version"]) == ("MNN", "4.5.6")


def test_what_is_wrong_in_an_archive_is_told_as_lying_in_it(
    elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    files = {**elf_kit.build(), "libMNN.so": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"}
    found = inspect(zipped(tmp_path / "mnn.zip", {f"mnn/{name}": data for name, data in files.items()}))
    assert not found.ok
    [lfs, *_missing] = found.problems
    assert (lfs.check, lfs.fix) == ("not_an_elf", "run: git lfs pull")
    assert lfs.detail == f"{tmp_path}/mnn.zip/mnn/libMNN.so is a Git LFS pointer, not the file"


def test_a_text_named_like_a_library_in_a_zip_is_refused(elf_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    found = inspect(zipped(tmp_path / "mnn.zip", {**elf_kit.build(), "libextra.so": b"INPUT(libMNN.so)\n"}))
    assert (only(found).check, only(found).severity) == ("not_an_elf", "error")
    assert only(found).detail == f"{tmp_path}/mnn.zip/libextra.so is a text file, not a program or shared library"
    assert only(found).fix == "put the real file there"


@pytest.mark.parametrize(
    ("content", "check", "fix"),
    [
        (b"PK\x03\x04 cut off", "archive_broken", "download or pack it again"),
        (b"just text", "archive_broken", "name a folder, a zip, a tar (plain, gz, bz2, xz), an APK or an AAB"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not_an_elf", "run git lfs pull where it lies"),
    ],
)
def test_what_cannot_be_unpacked_is_a_finding(
    content: bytes, check: str, fix: str, inspect: Inspect, tmp_path: Path
) -> None:
    (tmp_path / "mnn.zip").write_bytes(content)
    found = inspect(tmp_path / "mnn.zip")
    assert (only(found).check, only(found).severity, only(found).fix) == (check, "error", fix)
    assert (only(found).reason.code, found.variants, found.facts["variants"]) == ("bundle_mismatch", (), [])


def test_a_zip_that_leads_out_is_a_finding(inspect: Inspect, tmp_path: Path) -> None:
    found = inspect(zipped(tmp_path / "mnn.zip", {"../libMNN.so": b"evil"}))
    assert (only(found).check, only(found).fix) == (
        "archive_unsafe",
        "pack it again, or unpack it yourself and name the folder",
    )
    assert not (tmp_path / "libMNN.so").exists()


def test_a_path_that_is_not_there_is_a_finding(inspect: Inspect, tmp_path: Path) -> None:
    found = inspect(tmp_path / "gone.zip")
    assert (only(found).check, only(found).detail, only(found).fix) == (
        "file_unreadable",
        f"{tmp_path}/gone.zip cannot be read (No such file or directory)",
        "check the path",
    )


def app(apk_kit: ModuleType, file: Path, files: dict[str, bytes], **manifest: object) -> Path:
    entries = {"AndroidManifest.xml": apk_kit.axml(apk_kit.manifest(**manifest)), "classes.dex": b"dex", **files}
    return Path(apk_kit.write_zip(file, entries, align=16384))


def test_an_app_needs_no_program_and_its_opencl_has_to_be_declared(
    apk_kit: ModuleType, elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    engine = elf_kit.library("libMNN.so", data=elf_kit.ENGINE + elf_kit.OPENCL)
    found = inspect(app(apk_kit, tmp_path / "app.apk", {"lib/arm64-v8a/libMNN.so": engine}, target_sdk=34))
    assert (found.ok, [problem.check for problem in found.problems]) == (True, ["opencl_not_declared"])
    assert found.facts["kind"] == "apk"
    assert found.facts["backends"] == ["cpu", "opencl"]
    assert found.variants[0].programs == {}
    declared = {"libOpenCL.so": False}
    good = app(apk_kit, tmp_path / "good.apk", {"lib/arm64-v8a/libMNN.so": engine}, libraries=declared)
    assert inspect(good).problems == ()


def test_a_library_of_an_app_that_phones_with_big_pages_cannot_load_is_told(
    apk_kit: ModuleType, elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    engine = elf_kit.library("libMNN.so", data=elf_kit.ENGINE, align=4096)
    apk = app(apk_kit, tmp_path / "app.apk", {"lib/arm64-v8a/libMNN.so": engine})
    assert (only(found := inspect(apk)).check, only(found).severity) == ("page_alignment", "warning")
    assert inspect(apk, page_bytes=4096).problems == ()
    found = inspect(apk, page_bytes=16384)
    assert (only(found).check, only(found).severity) == ("page_alignment", "error")
    assert only(found).detail.startswith(f"{tmp_path}/app.apk/arm64-v8a")
    assert "libMNN.so" in only(found).detail
    assert "max-page-size=16384" in only(found).fix


def test_a_library_that_another_needs_is_missed_in_an_app(
    apk_kit: ModuleType, elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    llm = elf_kit.library("libllm.so", needed=("libMNN.so", "libc.so"))
    found = inspect(app(apk_kit, tmp_path / "app.apk", {"lib/arm64-v8a/libllm.so": llm}))
    assert (only(found).check, only(found).severity) == ("library_missing", "error")
    assert "app.apk/arm64-v8a/libllm.so needs libMNN.so" in only(found).detail


def test_an_app_without_libraries_is_empty(apk_kit: ModuleType, inspect: Inspect, tmp_path: Path) -> None:
    found = inspect(app(apk_kit, tmp_path / "base.apk", {}))
    assert (only(found).check, only(found).fix) == ("bundle_empty", "name the APK that has them")


def test_programs_that_an_app_calls_libraries_get_their_names_back(
    apk_kit: ModuleType, elf_kit: ModuleType, inspect: Inspect, tmp_path: Path
) -> None:
    files = {
        "lib/arm64-v8a/libMNN.so": elf_kit.library("libMNN.so", data=elf_kit.ENGINE),
        "lib/arm64-v8a/libllm_bench.so": elf_kit.program(),
        "lib/arm64-v8a/libllm_demo.so": elf_kit.library("libllm_demo.so"),
    }
    found = inspect(app(apk_kit, tmp_path / "app.apk", files))
    assert found.ok
    assert found.variants[0].programs == {"llm_bench": "llm_bench"}


STATED = """
schema = 1
name = "two"
runner = "llm_demo"
backends = ["cpu"]
[programs]
llm_bench = "llm_bench"
llm_demo = "llm_demo"
[[variants]]
abi = "arm64-v8a"
folder = "plain"
files = ["llm_bench", "llm_demo", "libMNN.so"]
backends = ["cpu"]
[[variants]]
abi = "arm64-v8a"
folder = "i8mm"
files = ["llm_bench", "llm_demo", "libMNN.so"]
backends = ["cpu"]
cpu_features = ["i8mm"]
"""


@pytest.fixture
def two(elf_kit: ModuleType, tmp_path: Path) -> Path:
    folder = tmp_path / "two"
    for name in ("plain", "i8mm"):
        elf_kit.write(folder / name, elf_kit.build())
    (folder / "bundle.toml").write_text(STATED)
    return folder


def test_a_manifest_of_ones_own_may_say_what_files_cannot(two: Path, inspect: Inspect) -> None:
    found = inspect(two)
    assert found.problems == ()
    assert [(v.folder, v.cpu_features, v.files[0].path) for v in found.variants] == [
        ("plain", (), "plain/libMNN.so"),
        ("i8mm", ("i8mm",), "i8mm/libMNN.so"),
    ]


def test_a_manifest_that_is_none_or_says_another_abi_is_a_finding(two: Path, inspect: Inspect, tmp_path: Path) -> None:
    (two / "bundle.toml").write_text(
        STATED.replace('abi = "arm64-v8a"\nfolder = "i8mm"', 'abi = "x86"\nfolder = "i8mm"')
    )
    problem = only(inspect(two))
    assert (problem.check, problem.fix) == ("bundle_wrong_abi", "correct the manifest, or put the right files there")
    assert problem.detail == f"{two}/bundle.toml says that i8mm is for x86, and nothing in it is"
    (two / "bundle.toml").write_text("schema = 1\nname = 7\n")
    (tmp_path / "again").mkdir()
    problem = only(inspect_source(two, tmp_path / "again"))
    assert (problem.check, problem.severity) == ("manifest_unreadable", "error")
    assert problem.detail.startswith(f"{two}/bundle.toml: ")


def test_a_file_that_is_not_as_it_was_pinned_is_a_finding(two: Path, inspect: Inspect, tmp_path: Path) -> None:
    right = hashlib.sha256((two / "plain" / "libMNN.so").read_bytes()).hexdigest()
    pins = f'pins = {{ "libMNN.so" = "{right}", "llm_demo" = "{"0" * 64}", "gone.so" = "{right}" }}'
    (two / "bundle.toml").write_text(STATED.replace('folder = "plain"', f'folder = "plain"\n{pins}'))
    found = inspect(two)
    assert [(problem.check, problem.reason.code, problem.detail) for problem in found.problems] == [
        (
            "pin_differs",
            "payload_corrupt",
            f"{two}/plain/llm_demo is not as it was when the bundle was imported",
        ),
        ("pin_differs", "payload_corrupt", f"{two}/plain/gone.so was imported, and is missing"),
    ]
    assert {problem.fix for problem in found.problems} == {"import the bundle again"}
