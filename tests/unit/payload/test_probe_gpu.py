"""GPU memory of a run, shown to the probe as each kind of driver tells it.

A driver's files of a process appear when the process opens the GPU, so here a process makes its own, by its pid.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.payload.probe_events import RunLog
from harness.phone.probed import Denied

RunProbe = Callable[..., RunLog]
KGSL = "sys/class/kgsl/kgsl/proc"
KPRCS = "sys/class/misc/mali0/device/kprcs"
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc").mkdir()
    return tmp_path


@pytest.fixture
def run_with(run_probe: RunProbe, roots: Path) -> RunProbe:
    """Run a script whose $1 is the folder of the made-up trees and that then goes on to live.

    It is a child of the command, which ends when the script has done its work: the probe looks once more then, at what
    the command leaves behind.
    """

    def run(script: str) -> RunLog:
        options = ("--sysfs", str(roots / "sys"), "--procfs", str(roots / "proc"), "--interval-ms", "10000")
        os.mkfifo(roots / "ready")
        inner = f'{script}\n: > "$1/ready"; exec sleep 60'
        return run_probe("sh", "-c", 'sh -c "$2" sh "$1" & : < "$1/ready"', "sh", str(roots), inner, options=options)

    return run


def counter_of(log: RunLog) -> str | None:
    assert log.sensors is not None
    return log.sensors.gpu_counter


def reading(log: RunLog) -> int | None:
    assert log.samples[-1].processes == 1
    return log.samples[-1].gpu_bytes


def test_adreno_tells_what_its_driver_allocated_and_what_it_imported(roots: Path, run_with: RunProbe) -> None:
    (roots / KGSL).mkdir(parents=True)
    log = run_with(
        f'mkdir "$1/{KGSL}/$$"; cd "$1/{KGSL}/$$"; echo 5000 > kernel; echo 700 > imported_mem; echo 9 > gpumem_mapped'
    )
    assert (counter_of(log), reading(log)) == ("kgsl", 5700)
    assert log.peak("gpu_bytes") == 5700


def test_the_dead_have_no_memory_that_is_known(run_probe: RunProbe, roots: Path) -> None:
    (roots / KGSL).mkdir(parents=True)
    samples = run_probe("true", options=("--sysfs", str(roots / "sys"))).samples
    assert (samples[-1].processes, samples[-1].gpu_bytes) == (0, None)


def test_a_process_that_did_not_open_the_gpu_has_nothing_there(roots: Path, run_with: RunProbe) -> None:
    (roots / KGSL).mkdir(parents=True)
    assert reading(run_with(":")) == 0


def test_a_counter_that_is_there_and_says_nothing_is_unknown(roots: Path, run_with: RunProbe) -> None:
    (roots / KGSL).mkdir(parents=True)
    log = run_with(f'mkdir "$1/{KGSL}/$$"')
    assert (counter_of(log), reading(log)) == ("kgsl", None)


def test_a_mali_of_a_pixel_has_a_folder_for_each_process_too(roots: Path, run_with: RunProbe) -> None:
    (roots / KPRCS).mkdir(parents=True)
    log = run_with(f'mkdir "$1/{KPRCS}/$$"; echo 123456 > "$1/{KPRCS}/$$/total_gpu_mem"')
    assert (counter_of(log), reading(log)) == ("mali_kprcs", 123456)


@pytest.mark.parametrize(
    ("path", "table", "wanted"),
    [
        (
            "proc/mtk_mali/gpu_memory",
            "mali0  900\n  kctx-0x00a1  17  $$\n  kctx-0x00a2  3  $$\n  kctx-0x00a3  880  1\n",
            20 * PAGE,
        ),
        ("proc/mali/memory_usage", "mali0  900\n  kctx-0x00a1  20  $$\n", 20 * PAGE),
        (
            "sys/kernel/debug/mali0/gpu_memory",
            "mali0  total used_pages  900\n----\nkctx  pid  used_pages\n----\n00c1 $$ 20\n00c2 1 880\n",
            20 * PAGE,
        ),
        (
            "sys/kernel/debug/mali/gpu_memory",
            "Name (:bytes)  pid  mali_mem  max_mali_mem\n====\n  runner  $$  5000  6000\n  other  1  9  9\n"
            "Mali mem usage: 5009\n",
            5000,
        ),
    ],
)
def test_other_malis_have_one_table(roots: Path, run_with: RunProbe, path: str, table: str, wanted: int) -> None:
    for device in ("mali", "mali0"):
        (roots / "sys/class/misc" / device).mkdir(parents=True)
    (roots / path).parent.mkdir(parents=True)
    (roots / path).write_text(table.replace("$$", "1"))
    log = run_with(f'cat > "$1/{path}" <<.\n{table}.')
    assert (counter_of(log), reading(log)) == ("mali_table", wanted)


def test_a_table_that_counts_by_context_alone_is_of_no_use(roots: Path, run_with: RunProbe) -> None:
    table = roots / "sys/kernel/debug/mali0/gpu_memory"
    table.parent.mkdir(parents=True)
    (roots / "sys/class/misc/mali0").mkdir(parents=True)
    table.write_text("mali0  23881\n  kctx-0x00a1  4007\n")
    assert counter_of(run_with(":")) is None


def fdinfo(number: int, *lines: str, target: str = "/dev/dri/renderD128") -> str:
    text = "\n".join(("pos: 0", "drm-driver: toy", *lines))
    return (
        f'mkdir -p "$1/proc/$$/fd" "$1/proc/$$/fdinfo"; ln -s {target} "$1/proc/$$/fd/{number}"\n'
        f'cat > "$1/proc/$$/fdinfo/{number}" <<.\n{text}\n.\n'
    )


CLIENT = ("drm-client-id: 7", "drm-total-memory: 900 MiB", "drm-resident-memory: 3 MiB", "drm-resident-vram: 5 KiB")


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param(fdinfo(5, *CLIENT), (3 << 20) + (5 << 10), id="what is resident, of all regions"),
        pytest.param(fdinfo(5, *CLIENT) + fdinfo(6, *CLIENT), (3 << 20) + (5 << 10), id="a client once"),
        pytest.param(
            fdinfo(5, *CLIENT) + fdinfo(6, "drm-client-id: 8", "drm-memory-a: 9 KiB", "drm-total-a: 8 MiB"),
            (3 << 20) + (14 << 10),
            id="two clients, one with the older name",
        ),
        pytest.param(
            fdinfo(5, "drm-total-a: 77", "drm-total-cycles-a: 5000", "drm-total-busy-a: 6 ns"),
            77,
            id="bytes, and no times",
        ),
        pytest.param(fdinfo(5, *CLIENT, target="/dev/null"), None, id="not a GPU's descriptor"),
        pytest.param(fdinfo(5, "drm-client-id: 7", "drm-memory-a: many"), None, id="no number"),
    ],
)
def test_drivers_of_the_kernels_own_tell_by_descriptor(
    roots: Path, run_with: RunProbe, script: str, wanted: int | None
) -> None:
    (roots / "sys/class/drm/renderD128").mkdir(parents=True)
    log = run_with(script)
    assert (counter_of(log), reading(log)) == ("drm_fdinfo", wanted)


def test_buffers_shared_between_devices_are_the_last_resort(roots: Path, run_with: RunProbe) -> None:
    (roots / "sys/class/drm/card0").mkdir(parents=True)  # shows pictures only
    (roots / "proc/self").mkdir()
    (roots / "proc/self/dmabuf_rss").write_text("0\n")
    log = run_with('mkdir "$1/proc/$$"; echo 8192 > "$1/proc/$$/dmabuf_rss"')
    assert (counter_of(log), reading(log)) == ("dmabuf_rss", 8192)


def test_a_refused_counter_is_named_and_the_next_one_is_taken(roots: Path, run_with: RunProbe) -> None:
    (roots / KGSL).parent.mkdir(parents=True)
    (roots / KGSL).write_text("")  # there, but no folder that can be read, for root too
    (roots / KPRCS).mkdir(parents=True)
    log = run_with(":")
    assert counter_of(log) == "mali_kprcs"
    assert log.sensors is not None
    assert log.sensors.denied[-1] == Denied(str(roots / KGSL), "ENOTDIR")


def test_without_any_counter_nothing_is_known(run_with: RunProbe) -> None:
    log = run_with(":")
    assert (counter_of(log), reading(log)) == (None, None)
