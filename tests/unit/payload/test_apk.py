"""Apps: what they pack for which ABI, and what of it phones cannot load."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.errors import BundleError, ConfigError
from harness.payload.android_manifest import AndroidManifest
from harness.payload.apk import App, AppFile, read_app, unpack_app
from harness.payload.apk_check import check_app
from harness.payload.bundle_files import found as problem
from harness.payload.model_problem import Problem

Make = Callable[..., App]
ARM = {"lib/arm64-v8a/libMNN.so": b"arm64", "lib/arm64-v8a/libMNN_CL.so": b"opencl"}
ARM32 = {"lib/armeabi-v7a/libMNN.so": b"arm", "lib/armeabi-v7a/libMNN_CL.so": b"opencl"}
GRADLE = "build with the Android Gradle plugin 8.5.1 or newer, or run zipalign -P 16 -f 4 on it before it is signed"


@pytest.fixture
def apk(apk_kit: ModuleType, tmp_path: Path) -> Make:
    def make(files: dict[str, bytes], *, align: int = 16384, stored: bool = True, **manifest: object) -> App:
        entries = {"AndroidManifest.xml": apk_kit.axml(apk_kit.manifest(**manifest)), "classes.dex": b"dex", **files}
        app = read_app(apk_kit.write_zip(tmp_path / "app.apk", entries, align=align, stored=stored))
        assert app is not None
        return app

    return make


@pytest.fixture
def aab(apk_kit: ModuleType, tmp_path: Path) -> Make:
    def make(files: dict[str, bytes], *, alignment: int | None = 2, **manifest: object) -> App:
        entries = {
            "BundleConfig.pb": apk_kit.bundle_config(alignment),
            "base/manifest/AndroidManifest.xml": apk_kit.proto_xml(apk_kit.manifest(**manifest)),
            **files,
        }
        app = read_app(apk_kit.write_zip(tmp_path / "app.aab", entries))
        assert app is not None
        return app

    return make


def found(app: App, *, page_bytes: int | None = None, opencl: bool = False) -> list[Problem]:
    return list(check_app(app, page_bytes=page_bytes, opencl=opencl))


def test_an_apk_says_what_it_packs_and_a_good_one_has_no_problem(apk: Make) -> None:
    app = apk(ARM | ARM32, extract=False, libraries={"libOpenCL.so": False})
    assert app.facts() == {
        "kind": "apk",
        "package": "com.example.farm",
        "min_sdk": 26,
        "target_sdk": 34,
        "extract_native_libs": False,
        "uses_native_libraries": [{"name": "libOpenCL.so", "required": False}],
        "abis": ["arm64-v8a", "armeabi-v7a"],
        "libraries": {"arm64-v8a": ["libMNN.so", "libMNN_CL.so"], "armeabi-v7a": ["libMNN.so", "libMNN_CL.so"]},
        "zip_align_bytes": 16384,
    }
    assert found(app, opencl=True) == found(app, page_bytes=16384) == []


def test_its_libraries_are_unpacked_by_abi_and_nothing_else_is(apk: Make, tmp_path: Path) -> None:
    app = apk(ARM | ARM32 | {"assets/tools/arm64-v8a/llm_bench": b"program", "lib/arm64-v8a/../../evil.so": b"evil"})
    (tmp_path / "out").mkdir()
    unpack_app(app, tmp_path / "out")
    out = tmp_path / "out"
    assert {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()} == {
        "arm64-v8a/libMNN.so": b"arm64",
        "arm64-v8a/libMNN_CL.so": b"opencl",
        "arm64-v8a/llm_bench": b"program",
        "armeabi-v7a/libMNN.so": b"arm",
        "armeabi-v7a/libMNN_CL.so": b"opencl",
    }


def test_an_aab_holds_the_libraries_of_all_its_modules(aab: Make) -> None:
    app = aab(
        {"base/lib/x86_64/libMNN.so": b"1", "llm/lib/x86_64/libllm.so": b"2", "llm/lib/x86_64/libMNN.so": b"3"},
        min_sdk=24,
        target_sdk=35,
    )
    assert (app.kind, app.manifest.min_sdk, app.page_bytes) == ("aab", 24, 16384)
    assert app.files == (
        AppFile("base/lib/x86_64/libMNN.so", "x86_64", "libMNN.so", app.files[0].begins_at),
        AppFile("llm/lib/x86_64/libllm.so", "x86_64", "libllm.so", app.files[1].begins_at),
    )
    assert found(app, page_bytes=16384) == []


@pytest.mark.parametrize(
    ("name", "warning"), [("libMNN.so", False), ("libllm.so", False), ("libMNN_CL.so", True), ("libqnn.so", True)]
)
def test_a_library_that_one_abi_lacks_is_told(name: str, warning: bool, apk: Make, tmp_path: Path) -> None:
    files = {f"lib/{abi}/libother.so": b"x" for abi in ("arm64-v8a", "x86_64", "armeabi-v7a")}
    app = apk(files | {f"lib/{abi}/{name}": b"y" for abi in ("arm64-v8a", "x86_64")})
    assert found(app) == [
        problem(
            "library_missing",
            f"{tmp_path}/app.apk has {name} for arm64-v8a, x86_64, but not for armeabi-v7a",
            "build it for armeabi-v7a too, or leave that ABI out of the app (abiFilters)",
            warning=warning,
        )
    ]


def test_an_uncompressed_library_at_4_kb_is_an_error_where_pages_of_16_are_asked_for(apk: Make, tmp_path: Path) -> None:
    app = apk({"lib/arm64-v8a/libMNN.so": bytes(5000)}, align=4096, extract=False)
    begins = app.files[0].begins_at
    assert begins is not None
    assert begins % 16384 != 0
    assert app.zip_align_bytes() in (4096, 8192)
    detail = (
        f"in {tmp_path}/app.apk lib/arm64-v8a has libMNN.so uncompressed and not at a multiple of 16384 bytes: "
        "phones with pages of that size cannot load them from there"
    )
    assert found(app) == [problem("page_alignment", detail, GRADLE, warning=True)]
    assert found(app, page_bytes=16384) == [problem("page_alignment", detail, GRADLE)]
    assert found(app, page_bytes=4096) == []


def test_a_library_at_no_page_at_all_is_an_error_unless_it_is_extracted(apk: Make) -> None:
    for extract, severities in ((False, ["error"]), (None, ["warning"]), (True, [])):
        app = apk({"lib/arm64-v8a/libMNN.so": b"x"}, align=4, extract=extract)
        assert [problem.severity for problem in found(app)] == severities


def test_32_bit_libraries_need_pages_of_4_kb_only(apk: Make) -> None:
    app = apk({"lib/armeabi-v7a/libMNN.so": b"x"}, align=4096, extract=False)
    assert found(app, page_bytes=16384) == []
    assert app.zip_align_bytes() is None


def test_compressed_libraries_are_fine_where_android_extracts_them(apk: Make, tmp_path: Path) -> None:
    app = apk(ARM, stored=False, extract=True)
    assert [file.begins_at for file in app.files] == [None, None]
    assert found(app, page_bytes=16384) == []
    assert found(apk(ARM, stored=False, extract=False)) == [
        problem(
            "library_compressed",
            f"{tmp_path}/app.apk says extractNativeLibs=false, "
            "but lib/arm64-v8a has libMNN.so, libMNN_CL.so compressed",
            "pack them uncompressed (jniLibs.useLegacyPackaging = false), or say true",
        )
    ]


@pytest.mark.parametrize(
    ("target_sdk", "libraries", "opencl", "told"),
    [
        (34, {}, True, True),
        (31, {"libcdsprpc.so": True}, True, True),
        (34, {"libOpenCL.so": False}, True, False),
        (34, {"libOpenCL.so": None}, True, False),
        (30, {}, True, False),
        (34, {}, False, False),
    ],
)
def test_opencl_that_is_not_declared_is_a_warning_since_api_31(
    target_sdk: int, libraries: dict[str, bool | None], opencl: bool, told: bool, apk: Make
) -> None:
    app = apk(ARM, target_sdk=target_sdk, libraries=libraries)
    problems = found(app, opencl=opencl)
    assert [(problem.check, problem.warning) for problem in problems] == [("opencl_not_declared", True)] * told
    if told:
        assert f"targets API {target_sdk} and does not declare libOpenCL.so" in problems[0].detail
        assert problems[0].fix == (
            'add <uses-native-library android:name="libOpenCL.so" android:required="false"/> to its <application>'
        )


@pytest.mark.parametrize(("alignment", "page_bytes"), [(1, 4096), (2, 16384), (3, 65536), (None, None), (9, None)])
def test_an_aab_says_how_its_apks_will_be_aligned(alignment: int | None, page_bytes: int | None, aab: Make) -> None:
    app = aab({"base/lib/arm64-v8a/libMNN.so": b"x"}, alignment=alignment)
    assert (app.page_bytes, app.zip_align_bytes()) == (page_bytes, page_bytes)
    problems = [(problem.check, problem.severity) for problem in found(app)]
    assert problems == [("page_alignment", "warning")] * (alignment == 1)
    assert [problem.severity for problem in found(app, page_bytes=16384)] == ["error"] * (alignment == 1)


def test_a_folder_that_is_no_abi_is_told(apk: Make) -> None:
    app = apk(ARM | {"lib/arm64/libMNN.so": b"x"})
    [problem] = found(app)
    assert (problem.check, problem.severity) == ("bundle_wrong_abi", "warning")
    assert "has a folder 'lib/arm64', which is no ABI" in problem.detail
    assert problem.fix == "use one of arm64-v8a, armeabi-v7a, x86_64, x86, riscv64"


@pytest.mark.parametrize("content", [b"\x03\x00", b"\x03\x00\x08\x00\xff\xff\xff\x7f", b"<manifest/>"])
def test_a_manifest_that_cannot_be_read_is_an_error_and_the_libraries_are_still_seen(
    content: bytes, apk_kit: ModuleType, tmp_path: Path
) -> None:
    entries = {"AndroidManifest.xml": content, "classes.dex": b"dex", **ARM}
    app = read_app(apk_kit.write_zip(tmp_path / "app.apk", entries, align=16384))
    assert app is not None
    assert (app.manifest, len(app.files)) == (AndroidManifest(), 2)
    [problem] = found(app, opencl=True)
    assert (problem.check, problem.severity, problem.fix) == ("manifest_unreadable", "error", "build the app again")
    assert problem.detail.startswith(f"{tmp_path}/app.apk: AndroidManifest.xml cannot be read (")


def test_an_aab_without_a_manifest_says_so(apk_kit: ModuleType, tmp_path: Path) -> None:
    app = read_app(apk_kit.write_zip(tmp_path / "a.aab", {"BundleConfig.pb": b""}))
    assert app is not None
    assert [problem.detail for problem in found(app)] == [
        f"{tmp_path}/a.aab: base/manifest/AndroidManifest.xml is not in it"
    ]


@pytest.mark.parametrize(
    "entries",
    [
        {"mnn/libMNN.so": b"x"},
        {"AndroidManifest.xml": b"<manifest/>", "jni/arm64-v8a/libMNN.so": b"x", "classes.jar": b"x"},
    ],
)
def test_a_zip_or_an_aar_is_no_app(entries: dict[str, bytes], apk_kit: ModuleType, tmp_path: Path) -> None:
    assert read_app(apk_kit.write_zip(tmp_path / "a.zip", entries)) is None


def test_an_entry_that_lies_elsewhere_than_the_directory_says_is_refused(apk: Make, tmp_path: Path) -> None:
    apk({"lib/arm64-v8a/libMNN.so": b"x"})
    data = bytearray((tmp_path / "app.apk").read_bytes())
    data[data.index(b"lib/arm64-v8a/libMNN.so") - 30] = 0
    (tmp_path / "app.apk").write_bytes(data)
    with pytest.raises(BundleError, match=r"entry 'lib/arm64-v8a/libMNN.so' cannot be read \(no entry begins") as error:
        read_app(tmp_path / "app.apk")
    assert (error.value.check, error.value.remedy) == ("archive_broken", "download or pack it again")


@pytest.mark.parametrize("form", ["apk", "aab"])
def test_bytes_changed_at_random_are_read_or_refused(form: str, apk: Make, aab: Make, tmp_path: Path) -> None:
    make, name = (apk, "lib/arm64-v8a/libMNN.so") if form == "apk" else (aab, "base/lib/arm64-v8a/libMNN.so")
    whole = make({name: b"x" * 50}, **({"align": 4} if form == "apk" else {})).path.read_bytes()
    chance = random.Random(11)  # noqa: S311
    read = 0
    for number in range(200):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        (tmp_path / "fuzz").write_bytes(data)
        try:
            app = read_app(tmp_path / "fuzz")
            if app is not None:
                found(app, opencl=True)
                (tmp_path / f"{number}").mkdir()
                unpack_app(app, tmp_path / f"{number}")
            read += 1
        except ConfigError:
            continue
    assert read > 0


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.apk").write_text("not an app")
    with pytest.raises(BundleError, match=r"app\.apk cannot be read \(File is not a zip file\)") as caught:
        read_app(tmp_path / "app.apk")
    assert caught.value.check == "archive_broken"


def test_an_apk_that_was_cut_off_is_refused(apk: Make, tmp_path: Path) -> None:
    whole = apk(ARM).path.read_bytes()
    for end in range(100, len(whole), len(whole) // 7):
        (tmp_path / "cut.apk").write_bytes(whole[:end])
        with pytest.raises(BundleError) as caught:
            read_app(tmp_path / "cut.apk")
        assert (caught.value.check, caught.value.remedy) == ("archive_broken", "download or pack it again")
    with zipfile.ZipFile(tmp_path / "app.apk") as archive:
        assert archive.testzip() is None
