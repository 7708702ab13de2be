"""The synthetic runner's bundle with orders of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ordered import ordered_bundle
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle


def test_orders_and_further_values_stand_in_the_manifest_and_the_source_is_the_same(tmp_path: Path) -> None:
    plain = read_bundle(data_root() / "device_bins" / "runner" / "synthetic").manifest
    made = read_bundle(ordered_bundle(tmp_path / "b", ["token_ms=5", 'text=a "b"'], {"backends": ["cpu"]}))
    assert made.manifest.extra_args == ["--synthetic", "token_ms=5", "--synthetic", 'text=a "b"']
    assert made.manifest.backends == ["cpu"]
    assert (made.manifest.name, made.manifest.build) == (plain.name, plain.build)


def test_a_value_that_the_manifest_does_not_have_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no backend$"):
        ordered_bundle(tmp_path / "b", [], {"backend": ["cpu"]})
