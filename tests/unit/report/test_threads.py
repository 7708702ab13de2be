from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.report.threads import Cliff, Sweep, gpu_note, speed_up_in_words, thread_sweeps

# A flagship with one prime, three big and four middle cores.
FLAGSHIP = (
    {"cpus": [0, 1, 2, 3], "core": "Cortex-A720", "max_khz": 2_400_000},
    {"cpus": [4, 5, 6], "core": "Cortex-X4", "max_khz": 3_300_000},
    {"cpus": [7], "core": "Cortex-X925", "max_khz": 3_600_000},
)
COLLAPSING = {1: 17.5, 2: 22.0, 3: 27.4, 4: 22.9, 5: 0.31, 6: 0.29, 7: 0.27, 8: 0.25}


def cells(make: ModuleType, speeds: dict[int, float], spread: float = 0.01, **over: Any) -> list[Any]:
    """Cells of these speeds, with intervals of plus and minus ``spread``."""
    made = []
    for threads, tps in speeds.items():
        base = make.record(threads=threads, tps=tps, **over)
        decode = {**base.metrics.decode_tps.model_dump(), "ci95": [tps * (1 - spread), tps * (1 + spread)]}
        metrics = base.metrics.model_copy(update={"decode_tps": type(base.metrics.decode_tps)(**decode)})
        made.append(base.model_copy(update={"metrics": metrics}))
    return made


def sweep(make: ModuleType, speeds: dict[int, float], clusters: Any = FLAGSHIP, **over: Any) -> Sweep:
    [found] = thread_sweeps(cells(make, speeds, **over), clusters)
    return found


def test_the_knee_and_the_cliff_beyond_the_fast_cores_are_named(make: ModuleType) -> None:
    found = sweep(make, COLLAPSING)
    assert (found.knee, found.cliff) == (3, Cliff(4, 5, 0.31 / 27.4))
    assert found.says == "best at 3 threads; beyond 4 (the fast cores: 1x X925 + 3x X4) it collapses to 1 %"
    assert found.label == "tiny-llama · CPU · low / low · 64 → 32"


def test_the_speed_up_of_each_number_of_threads_is_told(make: ModuleType) -> None:
    found = sweep(make, {1: 10.0, 2: 18.0, 4: 30.0})
    assert [(point.threads, point.speed_up, point.per_thread) for point in found.points] == [
        (1, 1.0, 1.0), (2, 1.8, 0.9), (4, 3.0, 0.75),
    ]  # fmt: skip
    assert speed_up_in_words(found) == "1: 10.0 tok/s, 2: 18.0 (1.80x, 90 % a thread), 4: 30.0 (3.00x, 75 % a thread)"


@pytest.mark.parametrize(
    ("speeds", "knee", "says"),
    [
        ({1: 10.0, 2: 18.0, 4: 30.0}, 4, "best at 4 threads, the most that were tried"),
        ({1: 10.0, 2: 19.5, 4: 20.0}, 2, "2 of 4 threads are enough: within 5.0 % of the best"),
        ({1: 30.0, 2: 20.0}, 1, "best at 1 thread"),
        ({2: 30.0, 4: 26.0, 6: 20.0}, 2, "best at 2 threads"),
    ],
)
def test_the_smallest_number_that_is_enough_is_the_knee(
    make: ModuleType, speeds: dict[int, float], knee: int, says: str
) -> None:
    found = sweep(make, speeds)
    assert (found.knee, found.cliff, found.says) == (knee, None, says)


def test_where_noise_hides_it_no_knee_is_claimed(make: ModuleType) -> None:
    found = sweep(make, {1: 10.0, 2: 18.0, 4: 20.0}, spread=0.1)
    assert found.knee is None
    assert found.says == "no number of threads is clearly best: 2 and 4 lie within each other's noise"


def test_a_cell_without_an_interval_is_granted_one(make: ModuleType) -> None:
    bare = [
        record.model_copy(
            update={
                "metrics": record.metrics.model_copy(
                    update={"decode_tps": record.metrics.decode_tps.model_copy(update={"ci95": None})}
                )
            }
        )
        for record in cells(make, {1: 18.5, 2: 20.0})
    ]
    [found] = thread_sweeps(bare)
    assert found.knee is None
    assert found.points[0].high == pytest.approx(18.5 * 1.05)


@pytest.mark.parametrize(
    ("speeds", "clusters", "says"),
    [
        (
            {2: 20.0, 8: 3.0}, FLAGSHIP,
            "best at 2 threads; between 2 and 8, where the 4 fast cores end (1x X925 + 3x X4), it collapses to 15 %",
        ),
        ({1: 12.0, 2: 20.0, 3: 5.0, 4: 4.9}, FLAGSHIP, "best at 2 threads; beyond 2 threads it collapses to 25 %"),
        ({4: 20.0, 5: 0.05}, (), "best at 4 threads; beyond 4 threads it collapses to less than 1 %"),
    ],
)  # fmt: skip
def test_a_cliff_is_said_as_far_as_facts_explain_it(
    make: ModuleType, speeds: dict[int, float], clusters: Any, says: str
) -> None:
    assert sweep(make, speeds, clusters).says == says


def test_a_fall_within_noise_is_no_cliff(make: ModuleType) -> None:
    assert sweep(make, {1: 20.0, 2: 9.0}, spread=0.5).cliff is None


def other_model(cell: Any) -> Any:
    return cell.model.model_copy(update={"hash": "n" * 64})


def test_only_cells_that_differ_in_threads_alone_are_a_sweep(make: ModuleType) -> None:
    same = cells(make, {1: 10.0, 2: 18.0})
    other = [
        *cells(make, {4: 30.0}, precision="high"),
        *(cell.model_copy(update={"model": other_model(cell)}) for cell in cells(make, {4: 30.0})),
        *cells(make, {4: 30.0}, config={"affinity": "4-7"}),
        make.record(threads=8, tps=99.0, reason=Reason.THROTTLED),
    ]
    [found] = thread_sweeps(same + other)
    assert [point.threads for point in found.points] == [1, 2]
    assert thread_sweeps(cells(make, {2: 10.0})) == []


def test_gpu_backends_are_no_sweep_and_it_is_said_why(make: ModuleType) -> None:
    gpu = [make.record(backend="opencl", threads=68), make.record(backend="vulkan", threads=4)]
    assert thread_sweeps(gpu) == []
    assert gpu_note(gpu, {"threads": [1, 2]}) == (
        "Threads are not swept on OpenCL and Vulkan: MNN takes that number as a mode mask there, so OpenCL and Vulkan "
        "run once."
    )
    assert gpu_note(gpu[:1], {"threads": [4]}, ("pytest", "--threads=4")).startswith(
        "--threads does not apply to OpenCL"
    )
    assert gpu_note(gpu, {"threads": [4]}) == ""
    assert gpu_note(cells(make, {1: 1.0}), {"threads": [1, 2]}) == ""


def test_the_case_from_the_field_is_read_as_its_reporter_did(make: ModuleType) -> None:
    case = Path(__file__).parents[4] / "shared" / "cases" / "27_thread_cliff_beyond_big_cores.txt"
    if not case.is_file():
        pytest.skip(f"{case.name} is not here")
    table = re.findall(r"^(\d+) ([\d.]+)$", case.read_text(), re.MULTILINE)
    found = sweep(make, {int(threads): float(tps) for threads, tps in table})
    assert (found.knee, found.cliff and found.cliff.beyond) == (3, 4)
    assert found.says.endswith("beyond 4 (the fast cores: 1x X925 + 3x X4) it collapses to 1 %")
