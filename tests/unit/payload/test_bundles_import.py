"""Imported bundles: copied under a name, pinned file by file, refused when one is not what was imported."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.errors import BundleError, ConfigError, HostError
from harness.payload.bundle import Bundle, read_bundle, read_manifest
from harness.payload.bundle_manifest import Target, Variant
from harness.payload.bundles_import import default_name, import_bundle
from harness.payload.bundles_place import BUNDLES, find_bundle, imported_bundles

Take = Callable[..., Bundle]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bundles"


@pytest.fixture
def mnn(elf_kit: ModuleType, tmp_path: Path) -> Path:
    """A build for two ABIs, with files that do not count."""
    folder: Path = elf_kit.write(
        tmp_path / "mnn",
        {f"arm64-v8a/{name}": data for name, data in elf_kit.build().items()}
        | {f"x86_64/{name}": data for name, data in elf_kit.build(abi="x86_64").items()}
        | {"README.md": b"read me", "include/MNN/Interpreter.hpp": b"class Interpreter;"},
    )
    return folder


def take(source: Path, name: str = "mine", *, replace: bool = False, said: list[str] | None = None) -> Bundle:
    return import_bundle(source, name, replace=replace, say=(said if said is not None else []).append)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_counts_of_a_build_is_copied_under_its_name_and_pinned(
    mnn: Path, elf_kit: ModuleType, cache: Path
) -> None:
    said: list[str] = []
    bundle = take(mnn, said=said)
    place = cache / "mine"
    assert (bundle.folder.root, find_bundle("mine")) == (place, place)
    assert names(cache) == [
        ".mine.lock",
        *(
            f"mine/{name}"
            for name in (
                "arm64-v8a/libMNN.so",
                "arm64-v8a/llm_bench",
                "arm64-v8a/llm_demo",
                "bundle.toml",
                "x86_64/libMNN.so",
                "x86_64/llm_bench",
                "x86_64/llm_demo",
            )
        ),
    ]
    manifest = bundle.manifest
    assert (manifest.name, manifest.engine, manifest.engine_version) == ("mine", "MNN", "4.5.6")
    assert (manifest.runner, manifest.programs) == ("llm_bench", {"llm_bench": "llm_bench", "llm_demo": "llm_demo"})
    assert (manifest.backends, manifest.source) == (["cpu"], str(mnn))
    assert manifest.variants == [
        Variant(
            abi=abi,
            folder=abi,
            files=["libMNN.so", "llm_bench", "llm_demo"],
            backends=["cpu"],
            min_sdk=24,
            page_bytes=16384,
            pins={name: hashlib.sha256(data).hexdigest() for name, data in elf_kit.build(abi=abi).items()},
        )
        for abi in ("arm64-v8a", "x86_64")
    ]
    size = sum(len(data) for abi in ("arm64-v8a", "x86_64") for data in elf_kit.build(abi=abi).values())
    assert said == [f"inspecting {mnn}", f"copying {size / 1e6:.1f} MB"]


def test_programs_can_be_run_and_only_a_phones_own_files_are_pushed(mnn: Path) -> None:
    (mnn / "arm64-v8a" / "llm_bench").chmod(0o600)
    bundle = take(mnn)
    assert os.access(bundle.folder.root / "arm64-v8a" / "llm_bench", os.X_OK)
    pushed = bundle.payload(Target(abis=("arm64-v8a",)))
    assert [(file.path, file.executable) for file in pushed.files] == [
        ("libMNN.so", False),
        ("llm_bench", True),
        ("llm_demo", True),
    ]


def test_what_was_built_is_told_to_be_built_again(mnn: Path, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    made = import_bundle(mnn, "mine", replace=False, say=lambda _: None, made_from=sdk)
    assert made.hash == take(mnn, replace=True).hash
    place = import_bundle(mnn, "mine", replace=True, say=lambda _: None, made_from=sdk).folder.root
    (place / "arm64-v8a" / "llm_demo").unlink()
    with pytest.raises(ConfigError) as caught:
        read_bundle(place)
    assert caught.value.remedy == f"run: mnn-farm bins build --sdk {sdk} --name mine --replace"


def test_a_zip_is_imported_like_its_folder_and_has_the_same_hash(mnn: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "mnn.zip", "w") as archive:
        for name in names(mnn):
            archive.write(mnn / name, f"mnn-1.2/{name}")
    from_folder = take(mnn)
    from_zip = take(tmp_path / "mnn.zip", replace=True)
    assert from_zip.hash == from_folder.hash
    assert from_zip.manifest.source == str(tmp_path / "mnn.zip")


def test_a_later_change_of_a_file_is_refused_with_its_name(mnn: Path, cache: Path) -> None:
    take(mnn)
    library = cache / "mine" / "arm64-v8a" / "libMNN.so"
    data = bytearray(library.read_bytes())
    data[-1] ^= 1
    library.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_bundle(cache / "mine")
    assert caught.value.reason.code == "payload_corrupt"
    assert f"mnn-farm bins import {mnn} --name mine --replace" in caught.value.remedy
    assert caught.value.message.startswith(f"{library} is not as it was when the bundle was imported")
    library.unlink()
    (cache / "mine" / "x86_64" / "llm_demo").unlink()
    with pytest.raises(ConfigError, match=r"libMNN\.so was imported, and is missing \(and 1 more\)") as gone:
        read_bundle(cache / "mine")
    assert gone.value.reason.code == "payload_corrupt"
    take(mnn, replace=True)
    assert read_bundle(cache / "mine").manifest.name == "mine"


@pytest.mark.parametrize(
    ("change", "check", "says", "remedy"),
    [
        ({"llm_bench": b"echo hello\n"}, "not_an_elf", "llm_bench is a text file", "put the real file there"),
        ({"libMNN.so": None}, "library_missing", "need libMNN.so, which is not", "add libMNN.so of the same MNN build"),
        ({"llm_bench": None, "llm_demo": None}, "no_runner", "holds libraries, but none of", "mnn-farm bins build"),
        ({"libMNN.so": b"\x7fELF\x02\x01\x01"}, "elf_truncated", "is cut off", "copy or build it again"),
    ],
)
def test_a_build_that_cannot_run_is_refused_and_leaves_nothing(
    change: dict[str, bytes | None],
    check: str,
    says: str,
    remedy: str,
    elf_kit: ModuleType,
    cache: Path,
    tmp_path: Path,
) -> None:
    files = {name: data for name, data in {**elf_kit.build(), **change}.items() if data is not None}
    with pytest.raises(BundleError) as caught:
        take(elf_kit.write(tmp_path / "bad", files))
    assert (caught.value.check, caught.value.reason.code) == (check, "bundle_mismatch")
    assert says in caught.value.message
    assert remedy in caught.value.remedy
    assert names(cache) == [".mine.lock"]


def test_how_many_more_problems_there_are_is_said(elf_kit: ModuleType, tmp_path: Path) -> None:
    bad = elf_kit.write(tmp_path / "bad", {**elf_kit.build(), "llm_bench": b"text", "llm_demo": b"text"})
    with pytest.raises(BundleError, match=rf"\(2 more: mnn-farm bins inspect {bad}\)"):
        take(bad)


def test_pages_that_are_asked_for_are_an_error_else_a_warning(elf_kit: ModuleType, tmp_path: Path) -> None:
    small = elf_kit.write(tmp_path / "small", elf_kit.build(align=4096))
    said: list[str] = []
    assert take(small, said=said).manifest.variants[0].page_bytes == 4096
    assert any(line.startswith("warning: page_alignment: ") for line in said)
    with pytest.raises(BundleError) as caught:
        import_bundle(small, "big", replace=False, say=said.append, page_bytes=16384)
    assert caught.value.check == "page_alignment"
    assert "max-page-size=16384" in caught.value.remedy


def test_an_app_without_a_program_is_refused_with_what_to_do(
    apk_kit: ModuleType, elf_kit: ModuleType, tmp_path: Path
) -> None:
    entries = {
        "AndroidManifest.xml": apk_kit.axml(apk_kit.manifest()),
        "lib/arm64-v8a/libMNN.so": elf_kit.library("libMNN.so", data=elf_kit.ENGINE),
    }
    apk = apk_kit.write_zip(tmp_path / "app.apk", entries, align=16384)
    with pytest.raises(BundleError) as caught:
        take(apk)
    assert caught.value.check == "no_runner"
    assert caught.value.message == f"{apk} is an app: it has libraries, but no program that runs on its own"
    assert "mnn-farm bins build --sdk DIR" in caught.value.remedy
    entries["lib/arm64-v8a/libllm_bench.so"] = elf_kit.program()
    assert take(apk_kit.write_zip(tmp_path / "b.apk", entries, align=16384)).manifest.programs == {
        "llm_bench": "llm_bench"
    }


def test_an_abi_without_a_program_is_left_out(elf_kit: ModuleType, mnn: Path) -> None:
    for name in ("llm_bench", "llm_demo"):
        (mnn / "x86_64" / name).unlink()
    said: list[str] = []
    assert [variant.abi for variant in take(mnn, said=said).manifest.variants] == ["arm64-v8a"]
    assert any(line.startswith("warning: no_runner: ") and "x86_64 (x86_64) holds none of" in line for line in said)


def test_abis_without_a_program_in_common_are_refused(mnn: Path) -> None:
    (mnn / "x86_64" / "llm_bench").unlink()
    assert take(mnn).manifest.programs == {"llm_demo": "llm_demo"}
    (mnn / "arm64-v8a" / "llm_demo").unlink()
    with pytest.raises(BundleError) as caught:
        take(mnn, "other")
    assert (caught.value.check, "is there for all its ABIs" in caught.value.message) == ("no_runner", True)


def test_what_the_cpu_must_have_is_kept_and_chosen_by(mnn: Path) -> None:
    bundle = import_bundle(mnn, "mine", replace=False, say=lambda _: None, cpu_features=["i8mm", "asimddp"])
    assert [variant.cpu_features for variant in bundle.manifest.variants] == [["asimddp", "i8mm"]] * 2
    with pytest.raises(ConfigError) as caught:
        bundle.check(Target(abis=("arm64-v8a",), cpu_features=("asimddp", "fp")))
    assert caught.value.reason.code == "isa_mismatch"


def test_two_variants_of_one_abi_come_from_a_manifest_of_ones_own(elf_kit: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    text = (
        'name = "x"\nrunner = "llm_demo"\nbackends = ["cpu"]\nextra_args = ["-v"]\n[programs]\nllm_demo = "llm_demo"\n'
    )
    for name, features in (("plain", []), ("fast", ["i8mm"])):
        elf_kit.write(folder / name, elf_kit.build())
        text += f'[[variants]]\nabi = "arm64-v8a"\nfolder = "{name}"\nfiles = ["llm_demo"]\nbackends = ["cpu"]\n'
        text += f"cpu_features = {features}\n"
    (folder / "bundle.toml").write_text(text)
    manifest = take(folder).manifest
    assert (manifest.name, manifest.runner, manifest.extra_args) == ("mine", "llm_demo", ["-v"])
    assert [(v.folder, v.cpu_features) for v in manifest.variants] == [("arm64-v8a", []), ("arm64-v8a-2", ["i8mm"])]


@pytest.mark.parametrize("name", ["../x", ".x", "", "a b", "a/b"])
def test_a_name_that_is_none_is_refused(name: str, mnn: Path) -> None:
    with pytest.raises(ConfigError, match="is no name for a bundle: give one of letters, digits, dots and dashes"):
        take(mnn, name)


def test_a_name_that_is_taken_is_kept_unless_it_is_to_go(elf_kit: ModuleType, mnn: Path, tmp_path: Path) -> None:
    take(mnn)
    other = elf_kit.write(tmp_path / "other", elf_kit.build())
    with pytest.raises(ConfigError) as caught:
        take(other)
    assert (caught.value.message, caught.value.remedy) == (
        "there is a bundle mine already",
        "give another name with --name, or --replace it",
    )
    assert read_manifest(find_bundle("mine")).source == str(mnn)
    take(other, replace=True)
    assert [variant.abi for variant in read_manifest(find_bundle("mine")).variants] == ["arm64-v8a"]


@pytest.mark.parametrize("name", ["made", "unpacked", "old"])
def test_no_name_is_in_the_way_of_the_import_itself(name: str, mnn: Path, cache: Path) -> None:
    for replace in (False, True):
        assert take(mnn, name, replace=replace).manifest.name == name
    assert [path.name for path in cache.iterdir() if not path.name.startswith(".")] == [name]


def test_a_name_that_no_phone_should_see_is_refused(mnn: Path, elf_kit: ModuleType) -> None:
    elf_kit.write(mnn, {"arm64-v8a/lib $(x).so": elf_kit.library("libx.so")})
    with pytest.raises(BundleError) as caught:
        take(mnn)
    assert (caught.value.check, caught.value.remedy) == (
        "file_name",
        "rename it: letters, digits, dots, dashes and plus signs",
    )
    assert caught.value.message == f"{mnn} holds 'lib $(x).so', a name that is not used on phones"


def test_a_replacement_that_is_refused_leaves_the_old_one(elf_kit: ModuleType, mnn: Path, tmp_path: Path) -> None:
    before = take(mnn).hash
    with pytest.raises(BundleError):
        take(elf_kit.write(tmp_path / "bad", {"llm_bench": b"text"}), replace=True)
    assert read_bundle(find_bundle("mine")).hash == before


def test_a_bundle_cannot_be_imported_onto_itself_but_under_another_name(mnn: Path) -> None:
    place = take(mnn).folder.root
    with pytest.raises(ConfigError, match="lies where it would be copied to: name what it was imported from"):
        take(place, replace=True)
    assert take(place, "copy").folder.hash == take(mnn, replace=True).folder.hash


def test_a_copy_that_differs_is_not_kept(mnn: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.payload.bundles_import.copy_file", lambda _, copy: copy.write_bytes(b"other"))
    with pytest.raises(HostError, match=r"the copy of .*libMNN\.so differs from it: try again"):
        take(mnn)
    assert names(cache) == [".mine.lock"]


def test_a_broken_bundle_that_nobody_named_is_left_out_and_told(
    mnn: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    take(mnn)
    (cache / "mine" / "x86_64" / "llm_demo").unlink()
    assert imported_bundles() == []
    assert "bundle mine is left out" in caplog.text


def test_imported_bundles_come_newest_first(mnn: Path) -> None:
    assert imported_bundles() == []
    for number, name in enumerate(("b", "c", "a")):
        manifest = take(mnn, name).folder.root / "bundle.toml"
        os.utime(manifest, (1_000_000 + number // 2, 1_000_000 + number // 2))
    assert [bundle.manifest.name for bundle in imported_bundles()] == ["a", "b", "c"]
    assert BUNDLES.kept() == ["a", "b", "c"]


def test_a_bundle_that_nobody_imported_is_told_with_those_that_are_there(mnn: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no bundle called x: name a folder with bundle\.toml in it$"):
        find_bundle("x")
    take(mnn)
    with pytest.raises(ConfigError, match="in it, or one of: mine"):
        find_bundle("x")
    assert find_bundle(str(tmp_path / "any" / "bundle.toml")) == tmp_path / "any"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mnn_3.6.1_android.zip", "mnn_3.6.1_android"),
        ("mnn-3.6.1.tar.gz", "mnn-3.6.1"),
        ("mnn.tgz", "mnn"),
        ("app-release.APK", "app-release"),
        ("mnn-3.6.1", "mnn-3.6.1"),
    ],
)
def test_a_bundle_is_called_like_its_archive_unless_told_otherwise(file: str, name: str, tmp_path: Path) -> None:
    assert default_name(tmp_path / file) == name
    (tmp_path / file).mkdir()
    assert default_name(tmp_path / file) == file


TENSOR_TOOLS = ("ModuleBasic.out", "MNNV2Basic.out", "benchmark.out")


def test_mnns_tools_for_other_models_are_runners_beside_those_of_language_models(
    elf_kit: ModuleType, tmp_path: Path
) -> None:
    source = elf_kit.write(tmp_path / "mnn", {**elf_kit.build(), **{name: elf_kit.program() for name in TENSOR_TOOLS}})
    bundle = take(source)
    assert bundle.runner == "llm_bench"
    assert bundle.manifest.runners == ["llm_bench", "llm_demo", "modulebasic", "mnnv2basic", "benchmark"]
    chosen = bundle.with_runner("mnnv2basic")
    assert (chosen.runner, chosen.program) == ("mnnv2basic", "MNNV2Basic.out")


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_build_with_them_alone_is_a_bundle(elf_kit: ModuleType, tmp_path: Path, packed: bool) -> None:
    files = {"libMNN.so": elf_kit.build()["libMNN.so"], **{name: elf_kit.program() for name in TENSOR_TOOLS}}
    source = elf_kit.write(tmp_path / "mnn", files)
    if packed:
        with zipfile.ZipFile(tmp_path / "mnn.zip", "w") as archive:
            for name in files:
                archive.write(source / name, f"mnn/{name}")
        source = tmp_path / "mnn.zip"
    bundle = take(source)
    assert (bundle.runner, bundle.manifest.runners) == ("modulebasic", ["modulebasic", "mnnv2basic", "benchmark"])
