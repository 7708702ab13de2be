"""Which files of a build fit which phone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle, best_bundle, read_bundle
from harness.payload.bundle_manifest import BundleManifest, Target, choose_variant
from harness.payload.folder import PayloadFolder

OLD = {"abi": "arm64-v8a", "folder": "old", "files": ["llm_demo"], "backends": ["cpu"], "page_bytes": 4096}
NEW = {**OLD, "folder": "new", "cpu_features": ["asimddp", "i8mm"], "page_bytes": 16384}
NARROW = {**OLD, "abi": "armeabi-v7a", "folder": "v7", "min_sdk": 24}
ARM64 = Target(("arm64-v8a", "armeabi-v7a"), ("fp", "asimddp"), 33, 4096)


def manifest(*variants: dict[str, Any], **over: Any) -> BundleManifest:
    base = {"name": "mnn", "runner": "llm_demo", "backends": ["cpu"], "programs": {"llm_demo": "llm_demo"}}
    return BundleManifest.model_validate({**base, "variants": list(variants), **over})


def folder_of(target: Target, *variants: dict[str, Any]) -> str:
    return choose_variant(manifest(*variants), target).folder


def test_a_phone_gets_the_files_of_its_favourite_abi_that_use_most_of_its_cpu() -> None:
    rich = Target(("arm64-v8a",), ("asimddp", "i8mm", "sve"), 35, 16384)
    assert folder_of(rich, NARROW, OLD | {"page_bytes": 16384}, NEW) == "new"
    assert folder_of(ARM64, NARROW, OLD, NEW) == "old"
    assert folder_of(Target(("armeabi-v7a",), (), 30), NARROW, OLD, NEW) == "v7"


def test_where_the_favourite_abi_does_not_fit_the_next_one_may() -> None:
    assert folder_of(ARM64, NARROW, NEW) == "v7"


@pytest.mark.parametrize(
    ("target", "variant", "reason", "said"),
    [
        (ARM64, NEW, Reason.ISA_MISMATCH, "its arm64-v8a files need the CPU's i8mm, which this phone lacks"),
        (Target(("x86_64",)), OLD, Reason.ABI_MISMATCH, "bundle mnn is for arm64-v8a, the phone runs x86_64"),
        (
            Target(("armeabi-v7a",), (), 23),
            NARROW,
            Reason.ABI_MISMATCH,
            "are for API level 24 and up, this phone has 23",
        ),
        (
            Target(("arm64-v8a",), (), 35, 16384),
            OLD,
            Reason.ABI_MISMATCH,
            "are aligned to pages of 4096 bytes, this phone has 16384: link MNN with -Wl,-z,max-page-size=16384",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_pushed(
    target: Target, variant: dict[str, Any], reason: Reason, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_variant(manifest(variant), target)
    assert caught.value.reason is reason
    assert said in str(caught.value)


def test_what_a_phone_does_not_tell_rules_nothing_out() -> None:
    assert folder_of(Target(("arm64-v8a",)), NEW) == "new"


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"program": "x"}, "with variants there is no program"),
        ({"runner": "llm_bench"}, "runner llm_bench is not among programs"),
        ({"programs": {"llm_demo": "demo"}}, "variant arm64-v8a: program 'demo' is not among its files"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(over: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        manifest(OLD, **over)


def written(root: Path, pin: str | None = None) -> Path:
    """A bundle on disk with one program and one library, for two kinds of phones."""
    for name in ("old", "v7"):
        (root / name).mkdir(parents=True)
        (root / name / "llm_demo").write_bytes(f"program {name}".encode())
        (root / name / "libMNN.so").write_bytes(b"library")
    pin = pin or hashlib.sha256(b"library").hexdigest()
    variants = "".join(
        f'[[variants]]\nabi = "{abi}"\nfolder = "{name}"\nfiles = ["llm_demo", "libMNN.so"]\nbackends = ["cpu"]\n'
        f'pins = {{ "libMNN.so" = "{pin}" }}\n'
        for abi, name in (("arm64-v8a", "old"), ("armeabi-v7a", "v7"))
    )
    head = 'name = "mnn"\nrunner = "llm_demo"\nbackends = ["cpu"]\nsource = "/builds/mnn"\n'
    (root / "bundle.toml").write_text(f'{head}[programs]\nllm_demo = "llm_demo"\n{variants}')
    return root


def test_a_phone_gets_its_own_files_only_with_the_program_made_to_run(tmp_path: Path) -> None:
    payload = read_bundle(written(tmp_path)).payload(Target(("armeabi-v7a",)))
    assert [(file.path, file.executable) for file in payload.files] == [("libMNN.so", False), ("llm_demo", True)]
    assert payload.root == tmp_path / "v7"


def test_a_file_that_is_not_as_it_was_pinned_is_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "v7" / "libMNN.so").write_bytes(b"Library")
    with pytest.raises(ConfigError) as caught:
        read_bundle(tmp_path)
    assert caught.value.reason is Reason.PAYLOAD_CORRUPT
    assert str(caught.value) == (
        f"{tmp_path}/v7/libMNN.so is not as it was when the bundle was imported: "
        "run: mnn-farm bins import /builds/mnn --name mnn --replace"
    )


def test_a_bundle_is_the_same_whichever_of_its_runners_is_used(tmp_path: Path) -> None:
    bundle = read_bundle(written(tmp_path))
    assert bundle.with_runner("llm_demo").hash == bundle.hash
    with pytest.raises(ConfigError, match="bundle mnn has no llm_bench, only llm_demo"):
        bundle.with_runner("llm_bench")


def test_a_phone_gets_the_first_bundle_that_runs_on_it() -> None:
    python = BundleManifest(
        name="py", runner="farm_runner", backends=["cpu"], program="x", files=["x"], needs_python_mnn=True
    )
    ours, theirs = (Bundle(one, PayloadFolder(Path(), ())) for one in (python, manifest(OLD)))
    assert best_bundle((ours, theirs), ARM64) is theirs
    assert best_bundle((ours, theirs), Target(("x86_64",), python_mnn="3.6.1")) is ours
    assert best_bundle((ours, theirs), Target(("x86_64",))) is ours, "whose refusal is then shown"
