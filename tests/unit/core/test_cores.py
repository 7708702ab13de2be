from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.core.cores import CoreGroup, cpu_list, fast_cpus, fast_groups, groups_of, in_words, parse_cpu_list

FLAGSHIP = (
    CoreGroup((0, 1, 2, 3), "Cortex-A720", 2_400_000),
    CoreGroup((4, 5, 6), "Cortex-X4", 3_300_000),
    CoreGroup((7,), "Cortex-X925", 3_600_000),
)


def test_the_fast_cores_of_a_flagship_are_named_the_fastest_first() -> None:
    assert fast_cpus(FLAGSHIP) == (4, 5, 6, 7)
    assert in_words(fast_groups(FLAGSHIP)) == "1x X925 + 3x X4"


@pytest.mark.parametrize(
    ("groups", "fast"),
    [
        # a little core of a high clock is little all the same
        ((CoreGroup((0, 1), "Cortex-A55", 2_000_000), CoreGroup((2, 3), "Cortex-A76", 2_200_000)), (2, 3)),
        ((CoreGroup((0, 1), "Kryo 4xx Silver", 1_800_000), CoreGroup((2,), "Kryo 4xx Gold", 2_300_000)), (2,)),
        # the middle cores belong to the fast ones
        (
            (
                CoreGroup((0,), "Cortex-A510", 1_800_000),
                CoreGroup((1, 2), "Cortex-A710", 2_500_000),
                CoreGroup((3,), "Cortex-X2", 3_000_000),
            ),
            (1, 2, 3),
        ),
        # by clocks alone, and by names alone
        ((CoreGroup((0, 1), None, 1_800_000), CoreGroup((2,), None, 2_800_000)), (2,)),
        ((CoreGroup((0, 1), "Cortex-A53"), CoreGroup((2,), "Cortex-A73")), (2,)),
        # where all are little, the faster ones; where all are the same, all
        ((CoreGroup((0, 1), "Cortex-A53", 1_300_000), CoreGroup((2, 3), "Cortex-A53", 2_000_000)), (2, 3)),
        ((CoreGroup((0, 1, 2, 3), "Cortex-A55", 1_600_000),), (0, 1, 2, 3)),
        ((CoreGroup((0, 1)),), (0, 1)),
        # nothing tells them apart
        ((CoreGroup((0, 1)), CoreGroup((2, 3), "Cortex-A73", 2_000_000)), ()),
        ((), ()),
    ],
)
def test_fast_cores_are_told_from_clocks_and_names(groups: tuple[CoreGroup, ...], fast: tuple[int, ...]) -> None:
    assert fast_cpus(groups) == fast


def test_clusters_are_read_from_facts_and_from_a_runs_head() -> None:
    told = {"cpus": [0, 1], "core": "Cortex-A55", "max_khz": None, "part": "0xd05"}
    expected = (CoreGroup((0, 1), "Cortex-A55"),)
    assert groups_of([told]) == groups_of([SimpleNamespace(**told)]) == expected
    assert in_words([CoreGroup((0, 1))]) == "2x cores"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", {0}),
        ("0,4-7", {0, 4, 5, 6, 7}),
        (" 4-5\n", {4, 5}),
        ("", None),
        ("7-4", None),
        ("f0", None),
        ("0,,1", None),
    ],
)
def test_the_kernels_lists_of_cores_are_read(text: str, cpus: set[int] | None) -> None:
    assert parse_cpu_list(text) == cpus


def test_cores_are_written_as_the_kernel_writes_them() -> None:
    assert cpu_list([7, 4, 5, 6, 0]) == "0,4-7"
    assert cpu_list([3]) == "3"
    assert cpu_list([]) == ""
