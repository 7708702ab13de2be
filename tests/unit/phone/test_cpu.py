from __future__ import annotations

import pytest

from harness.phone.cpu import Cluster, clusters_of, implementers_of, instructions_of
from harness.phone.probed import read_probe_facts

NAMES = {(0x41, 0xD05): "Cortex-A55", (0x51, 0x804): "Kryo 4xx Gold"}


def core(cpu: int, implementer: str | None = "0x41", part: str | None = "0xd05", max_khz: int | None = 1_800_000):
    return {"cpu": cpu, "implementer": implementer, "part": part, "max_khz": max_khz}


def test_clusters_have_the_names_of_their_cores_and_their_top_clock() -> None:
    cores = [core(0), core(1, None, None, None), core(7, "0x51", "0x804", 2_800_000)]
    probe = read_probe_facts({"cores": cores, "clusters": [[0, 1], [7]]})
    assert clusters_of(probe, NAMES) == (
        (
            Cluster((0, 1), "Cortex-A55", "0x41", "0xd05", 1_800_000),
            Cluster((7,), "Kryo 4xx Gold", "0x51", "0x804", 2_800_000),
        ),
        "",
    )
    assert implementers_of(probe) == {0x41, 0x51}


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (core(3, None, None), "the kernel tells no part of core 3"),
        (core(3, "0x41", "0xfff"), "profiles/cpu_parts.csv does not know part 0x41:0xfff of core 3"),
        (core(3, "0xzz", "0xd05"), "profiles/cpu_parts.csv does not know part 0xzz:0xd05 of core 3"),
    ],
)
def test_a_core_without_a_name_has_a_reason(one: dict[str, object], why: str) -> None:
    clusters, said = clusters_of(read_probe_facts({"cores": [one], "clusters": [[3]]}), NAMES)
    assert (clusters[0].core, said) == (None, why)


def test_clusters_of_unknown_cores_do_no_harm() -> None:
    clusters, why = clusters_of(read_probe_facts({"clusters": [[0, 1]]}), NAMES)
    assert (clusters, why) == ((Cluster((0, 1), None, None, None, None),), "the kernel tells no part of core 0")
    assert clusters_of(read_probe_facts({}), NAMES) == ((), "the phone tells no cores")


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("fp asimd asimdhp asimddp i8mm bf16", ("dotprod", "i8mm", "fp16", "bf16")),
        ("half thumb neon asimdhp asimddp asimdbf16", ("dotprod", "fp16", "bf16")),
        ("asimd svebf16 svei8mm sve2p1", ()),
        ("sve sve2 sme smef16f32 sme2", ("sve", "sve2", "sme", "sme2")),
        ("fpu sse2 avx512_fp16 avx512_bf16", ()),
        ("", ()),
    ],
)
def test_instructions_are_those_that_the_kernel_names(features: str, words: tuple[str, ...]) -> None:
    assert instructions_of(features.split()) == words


def test_the_products_table_knows_the_cores_of_phones() -> None:
    probe = read_probe_facts(
        {"cores": [core(0), core(1, "0x51", "0x001"), core(2, "0x53", "0x003")], "clusters": [[0], [1], [2]]}
    )
    assert [cluster.core for cluster in clusters_of(probe)[0]] == ["Cortex-A55", "Oryon", "Exynos M4"]
