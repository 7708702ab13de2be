from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.affinity import affinity_held
from harness.bench.cores_asked import cannot_be_had, resolve
from harness.bench.evidence import Evidence
from harness.bench.limits import Limits
from harness.phone.cpu import Cluster

CLUSTERS = (
    Cluster((0, 1, 2, 3), "Cortex-A55", "0x41", "0xd05", 1_800_000),
    Cluster((4, 5, 6, 7), "Cortex-A78", "0x41", "0xd41", 2_400_000),
)


def cell(make: ModuleType, *samples: dict[str, Any], cpus: str | None = "4-7") -> Evidence:
    """The honest cell, asked to stay on cores; its samples are from amid the timed generations unless they say so."""
    made = tuple(make.sample(**{"mono_ns": 1500 * make.MS, **one}) for one in samples)
    return replace(make.evidence(samples=made), limits=Limits(cpus=cpus))


def test_a_plans_words_become_cores_of_the_phone() -> None:
    assert resolve("any", CLUSTERS) is None
    assert resolve("big", CLUSTERS) == "4-7"
    assert resolve("0,4-5", CLUSTERS) == "0,4-5"
    assert resolve("big", ()) == "big"


@pytest.mark.parametrize(
    ("word", "clusters", "says"),
    [
        ("any", (), ""),
        ("big", CLUSTERS, ""),
        ("4-7", CLUSTERS, ""),
        ("4-9", CLUSTERS, "affinity 4-9 asks for core 8-9; the phone has cores 0-7"),
        ("7-4", CLUSTERS, "affinity 7-4 is no list of cores; write e.g. 4-7"),
        ("big", (), "affinity big: the phone tells neither clocks nor names of all its cores; name the cores"),
    ],
)
def test_what_a_phone_cannot_do_is_refused_in_a_sentence(word: str, clusters: Any, says: str) -> None:
    found = cannot_be_had(word, clusters, range(8))
    assert found.startswith(says)
    assert bool(found) is bool(says)


def test_cores_that_are_not_known_are_tried() -> None:
    assert cannot_be_had("4-9", (), ()) == ""


@pytest.mark.parametrize(
    "sample",
    [
        {"cpus_allowed": "4-7"},
        {"cpus_allowed": "4-7", "threads_allowed": ("4-7",)},
        {"cpus_allowed": "4-7", "threads_allowed": ("4-7", "7", "4-5")},  # an engine that binds its own threads
        {"cpus_allowed": "4-7", "mono_ns": 0},  # a run too short for a sample amid its generations
    ],
)
def test_threads_that_stay_on_the_cores_asked_for_are_fine(make: ModuleType, sample: dict[str, Any]) -> None:
    assert list(affinity_held(cell(make, sample))) == []
    assert make.codes(cell(make, sample)) == []


@pytest.mark.parametrize(
    "sample",
    [
        {"cpus_allowed": "0-7"},
        {"cpus_allowed": "4-7", "threads_allowed": ("4-7", "0-3")},
        {"cpus_allowed": "4-7", "threads_allowed": ("no list",)},
    ],
)
def test_one_thread_on_another_core_is_enough_to_refuse(make: ModuleType, sample: dict[str, Any]) -> None:
    [objection] = affinity_held(cell(make, {"cpus_allowed": "4-7"}, sample))
    assert objection.reason.code == "noisy"
    assert objection.detail.startswith("affinity did not hold: asked were cores 4-7, threads were allowed on ")
    assert "4-7" in objection.evidence


def test_what_happens_before_or_after_the_timed_generations_does_not_count(make: ModuleType) -> None:
    during, outside = {"cpus_allowed": "4-7"}, {"cpus_allowed": "0-7", "mono_ns": 3000 * 10**6}
    assert list(affinity_held(cell(make, during, outside))) == []


def test_cores_that_nobody_proves_are_not_believed(make: ModuleType) -> None:
    [objection] = affinity_held(cell(make, {}))
    assert objection.detail == "no sample proves that it ran on cores 4-7 only"
    assert list(affinity_held(cell(make, {}, cpus=None))) == []
