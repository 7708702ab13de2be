"""Which of a bundle's builds phones of several kinds get, what of it, and why they get none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import BundleManifest, Target, Variant
from harness.payload.folder import PayloadFile, PayloadFolder

ARM64, ARM32 = "arm64-v8a", "armeabi-v7a"
#: A phone of 2023, one of 2016 whose system is 32-bit on a 64-bit kernel, and one of 2025 with 16 KiB pages.
NEW = Target((ARM64, ARM32), ("fp", "asimd", "asimdhp", "asimddp", "i8mm", "bf16"), 34, 4096)
OLD = Target((ARM32,), ("half", "thumb", "neon", "vfpv4"), 26, 4096)
LARGE_PAGES = Target((ARM64,), ("fp", "asimd", "asimdhp", "asimddp"), 36, 16384)


def variant(folder: str, abi: str = ARM64, **over: Any) -> dict[str, Any]:
    return {"abi": abi, "folder": folder, "files": ["run"], "backends": ["cpu"], **over}


def bundle(*variants: dict[str, Any]) -> Bundle:
    values = {"name": "mnn", "runner": "llm_bench", "backends": ["cpu", "opencl"], "programs": {"llm_bench": "run"}}
    manifest = BundleManifest.model_validate({**values, "variants": list(variants)})
    files = [PayloadFile(f"{one['folder']}/run", 1, "0" * 64, True) for one in variants]
    return Bundle(manifest, PayloadFolder(Path("/bundles/mnn"), tuple(files)))


def chosen(target: Target, *variants: dict[str, Any]) -> str:
    found = bundle(*variants).variant(target)
    assert isinstance(found, Variant)
    return found.folder


PLAIN, DOT, MATRIX = variant("plain"), variant("dot", cpu_features=["asimddp"]), variant("i8mm", cpu_features=["i8mm"])
BOTH = variant("both", cpu_features=["asimddp", "i8mm"])


@pytest.mark.parametrize(
    ("target", "variants", "folder"),
    [
        (NEW, [variant("32", ARM32), PLAIN], "plain"),
        (OLD, [variant("32", ARM32), PLAIN], "32"),
        (NEW, [variant("32", ARM32)], "32"),
        (NEW, [PLAIN, DOT, BOTH, MATRIX], "both"),
        (LARGE_PAGES, [PLAIN, DOT, BOTH, MATRIX], "dot"),
        (LARGE_PAGES, [variant("4k", page_bytes=4096), variant("16k", page_bytes=16384)], "16k"),
        (LARGE_PAGES, [variant("any")], "any"),
        (NEW, [variant("4k", page_bytes=4096)], "4k"),
        (OLD, [variant("28", ARM32, min_sdk=28), variant("21", ARM32, min_sdk=21)], "21"),
        (NEW, [variant("28", min_sdk=28)], "28"),
        (NEW, [variant("fast32", ARM32, cpu_features=["asimddp"]), PLAIN], "plain"),
        (NEW, [variant("sve", cpu_features=["sve2"]), variant("32", ARM32)], "32"),
    ],
)
def test_a_phone_gets_the_build_that_asks_for_most_of_what_it_has(
    target: Target, variants: list[dict[str, Any]], folder: str
) -> None:
    assert chosen(target, *variants) == folder


@pytest.mark.parametrize(
    ("target", "variants", "reason", "says"),
    [
        (LARGE_PAGES, [BOTH], Reason.ISA_MISMATCH, "need the CPU's i8mm, which"),
        (
            OLD,
            [PLAIN, variant("pc", "x86_64")],
            Reason.ABI_MISMATCH,
            "is for arm64-v8a, x86_64, the phone runs armeabi",
        ),
        (LARGE_PAGES, [variant("4k", page_bytes=4096), MATRIX], Reason.ISA_MISMATCH, "need the CPU's i8mm"),
    ],
)
def test_a_phone_that_no_build_is_for_is_told_before_the_push_and_what_to_do(
    target: Target, variants: list[dict[str, Any]], reason: Reason, says: str
) -> None:
    made = bundle(*variants)
    for ask in (made.check, made.payload):
        with pytest.raises(ConfigError) as caught:
            ask(target)
        assert caught.value.reason is reason
        assert says in caught.value.message
        assert caught.value.remedy


def test_what_is_not_known_of_a_phone_rules_nothing_out_and_nothing_is_asked_of_it() -> None:
    limits = {"min_sdk": 24, "page_bytes": 4096}
    builds = [variant("both", cpu_features=["asimddp", "i8mm"], **limits), variant("plain", **limits)]
    assert chosen(Target((ARM64,)), *builds) == "plain"
    assert chosen(Target((ARM64,)), builds[0]) == "both"
    assert chosen(Target((ARM64,), ("asimddp", "i8mm")), *builds) == "both"


def test_a_phone_of_which_nothing_is_known_is_not_refused_before_it_is_asked() -> None:
    bundle(DOT).check(Target())
    assert bundle(DOT).backends(Target()) == ["cpu", "opencl"]


def test_a_phone_gets_the_files_of_its_build_alone_and_the_backends_that_it_has() -> None:
    made = bundle(variant("32", ARM32), variant("64", backends=["cpu", "opencl"]))
    payload = made.payload(NEW)
    assert (payload.root, payload.files) == (Path("/bundles/mnn/64"), (PayloadFile("run", 1, "0" * 64, True),))
    assert (made.backends(NEW), made.backends(OLD)) == (["cpu", "opencl"], ["cpu"])
    assert (made.abi(NEW), made.abi(OLD), made.abi(Target())) == (ARM64, ARM32, None)
