from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.payload.probe_facts import parse_facts
from harness.phone.probed import Core, Denied, ProbeFacts, ZoneReading

CPUINFO = """\
Processor\t: AArch64 Processor rev 1 (aarch64)
processor\t: 0
BogoMIPS\t: 26.00
Features\t: fp asimd asimddp i8mm
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd05

processor\t: 4
BogoMIPS\t: 26.00
Features\t: fp asimd asimddp i8mm
CPU implementer\t: 0x41
CPU part\t: 0xd0b

processor\t: 7
CPU implementer\t: 0x51
CPU part\t: 0x804

Hardware\t: Something 8000
"""

MEMINFO = "MemTotal:        5000 kB\nMemFree:          100 kB\nMemAvailable:    2500 kB\nSwapTotal:             0 kB\n"


def read_facts(probe: Path, *options: str) -> ProbeFacts:
    """Return what the probe tells; nothing of it may be of a wrong kind."""
    done = subprocess.run([str(probe), "facts", *options], capture_output=True, timeout=10, check=True)
    assert done.stdout.count(b"\n") == 1
    assert done.stdout.isascii()
    facts = parse_facts(done.stdout)
    assert facts.odd == {}
    return facts


@pytest.fixture
def proc_tree(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    (root / "cpuinfo").write_text(CPUINFO)
    (root / "meminfo").write_text(MEMINFO)
    return root


def cores_tree(root: Path, clocks: dict[int, int | None], present: str) -> Path:
    """Make a sysfs in which each core has a top clock, or none at all."""
    cpu = root / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "present").write_text(present)
    for number, top in clocks.items():
        folder = cpu / f"cpu{number}"
        folder.mkdir()
        if top is not None:
            (folder / "cpufreq").mkdir()
            (folder / "cpufreq/cpuinfo_max_freq").write_text(f"{top}\n")
    return root


def cpuinfo(parts: dict[int, str]) -> str:
    blocks = (f"processor : {cpu}\nBogoMIPS : 1\nCPU implementer : 0x41\nCPU part : {p}\n" for cpu, p in parts.items())
    return "\n".join(blocks)


def test_a_phone_with_holes_offline_cores_and_odd_zones_is_read_as_it_is(
    probe: Path, sensor_tree: Path, proc_tree: Path
) -> None:
    facts = read_facts(probe, "--sysfs", str(sensor_tree), "--procfs", str(proc_tree))
    assert facts.cores == (
        Core(0, "0x41", "0xd05", 1_800_000, 300_000, 1_800_000, True),
        Core(4, "0x41", "0xd0b", 2_400_000, 400_000, 2_300_000, True),
        Core(5, None, None, 2_400_000, 400_000, 2_300_000, True),
        Core(6, None, None, None, None, None, False),
        Core(7, "0x51", "0x804", 2_800_000, 500_000, 2_800_000, True),
    )
    assert facts.clusters == ((0,), (4, 5, 6), (7,)), "core 6 is off, but its clock group names it"
    assert facts.clocks_readable
    assert facts.zones == (ZoneReading(0, "cpu-0-0", -40_000), ZoneReading(7, "skin", 31), ZoneReading(10, None, None))
    assert [(denied.path, denied.errno) for denied in facts.denied] == [
        (f"{sensor_tree}/class/thermal/thermal_zone10/type", "EISDIR")
    ]
    assert facts.features == ("fp", "asimd", "asimddp", "i8mm")
    assert facts.boot_id == "01234567-89ab-cdef-0123-456789abcdef"
    assert (facts.mem_total_bytes, facts.mem_available_bytes, facts.swap_total_bytes) == (5_120_000, 2_560_000, 0)


def test_the_kernels_own_names_are_those_of_this_computer(probe: Path) -> None:
    facts = read_facts(probe)
    assert (facts.kernel, facts.machine) == (platform.release(), platform.machine())
    assert facts.page_size == os.sysconf("SC_PAGE_SIZE")
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.mem_total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts.uptime_ms is not None
    assert facts.uptime_ms > 0


def caches_tree(root: Path, caches: dict[int, list[tuple[int, str, str | None]]]) -> Path:
    """Make a sysfs in which each core has caches of (level, type, size)."""
    tree = cores_tree(root, dict.fromkeys(caches, None), "0-7")
    for core, its in caches.items():
        for index, (level, kind, size) in enumerate(its):
            folder = tree / f"devices/system/cpu/cpu{core}/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "type").write_text(f"{kind}\n")
            if size is not None:
                (folder / "size").write_text(f"{size}\n")
    return tree


FIRST = [(1, "Data", "64K"), (1, "Instruction", "64K")]


@pytest.mark.parametrize(
    ("caches", "kb"),
    [
        pytest.param(
            {0: [*FIRST, (2, "Unified", "512K")], 1: [*FIRST, (2, "Unified", "2048K")]}, 2048, id="no level 3"
        ),
        pytest.param(
            {
                0: [*FIRST, (2, "Unified", "256K"), (3, "Unified", "8192K")],
                1: [(2, "Unified", "1M"), (3, "Unified", "8M")],
            },
            9 * 1024,
            id="both levels of the core that has most",
        ),
        pytest.param({0: [*FIRST, (2, "Instruction", "512K"), (2, "Data", "256K")]}, 256, id="data only"),
        pytest.param({0: FIRST}, None, id="level 1 is not the last one"),
        pytest.param({0: [*FIRST, (2, "Unified", "512K"), (3, "Unified", None)]}, None, id="a size is not told"),
        pytest.param({0: [(2, "Unified", "512K")], 1: [(2, "Unified", "big")]}, None, id="a size is no size"),
        pytest.param({0: [(2, "Unified", "512K")], 1: []}, 512, id="a core that is off"),
    ],
)
def test_the_caches_of_the_core_that_reaches_most(
    probe: Path, tmp_path: Path, caches: dict[int, list[tuple[int, str, str | None]]], kb: int | None
) -> None:
    tree = caches_tree(tmp_path / "sys", caches)
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert facts.llc_bytes == (None if kb is None else kb * 1024)
    assert facts.denied == ()


def test_a_refused_size_of_a_cache_is_named(probe: Path, tmp_path: Path) -> None:
    tree = caches_tree(tmp_path / "sys", {0: [(2, "Unified", "512K"), (3, "Unified", None)]})
    size = tree / "devices/system/cpu/cpu0/cache/index1/size"
    size.mkdir()  # unreadable, for root too
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert (facts.llc_bytes, facts.denied) == (None, (Denied(str(size), "EISDIR"),))


def test_an_answer_of_an_older_probe_lacks_the_caches(probe: Path) -> None:
    facts = json.loads(subprocess.run([str(probe), "facts"], capture_output=True, timeout=10, check=True).stdout)
    del facts["llc_bytes"]
    assert parse_facts(json.dumps(facts).encode()).llc_bytes is None


def test_an_empty_tree_gives_nulls_and_no_zeros(probe: Path, tmp_path: Path) -> None:
    facts = read_facts(probe, "--sysfs", str(tmp_path), "--procfs", str(tmp_path))
    assert (facts.mem_total_bytes, facts.mem_available_bytes, facts.swap_total_bytes) == (None, None, None)
    assert (facts.boot_id, facts.cores, facts.clusters, facts.zones) == (None, (), (), ())
    assert not facts.clocks_readable
    assert facts.denied == (), "what is not there was not refused"


def test_nine_cores_in_three_clusters(probe: Path, tmp_path: Path) -> None:
    clocks: dict[int, int | None] = {
        cpu: 1_700_000 if cpu < 4 else 2_300_000 if cpu < 8 else 2_900_000 for cpu in range(9)
    }
    tree = cores_tree(tmp_path / "sys", clocks, "0-8\n")
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert facts.clusters == ((0, 1, 2, 3), (4, 5, 6, 7), (8,))
    assert [core.online for core in facts.cores] == [None] * 9


def test_different_parts_at_one_clock_are_different_clusters(probe: Path, tmp_path: Path) -> None:
    tree = cores_tree(tmp_path / "sys", dict.fromkeys(range(4), 2_000_000), "0-3")
    (tmp_path / "cpuinfo").write_text(cpuinfo({0: "0xd03", 1: "0xd03", 2: "0xd09", 3: "0xd09"}))
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert facts.clusters == ((0, 1), (2, 3))


def test_without_any_clock_the_parts_make_the_clusters(probe: Path, tmp_path: Path) -> None:
    tree = cores_tree(tmp_path / "sys", dict.fromkeys(range(5), None), "0-4")
    (tmp_path / "cpuinfo").write_text(cpuinfo({0: "0xd05", 1: "0xd05", 2: "0xd0b", 3: "0xd0b"}))
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert facts.clusters == ((0, 1), (2, 3), (4,)), "core 4 is unknown, so it is alone"
    assert not facts.clocks_readable


def test_an_old_cpuinfo_with_one_part_for_all_names_none(probe: Path, tmp_path: Path) -> None:
    tree = cores_tree(tmp_path / "sys", dict.fromkeys(range(3), None), "0-2")
    (tmp_path / "cpuinfo").write_text(
        "processor : 0\nprocessor : 1\nprocessor : 2\nFeatures : fp\nCPU implementer : 0x41\nCPU part : 0xd03\n"
    )
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert [core.part for core in facts.cores] == [None, None, None]


def test_an_offline_core_tells_its_part_by_its_register(probe: Path, tmp_path: Path) -> None:
    tree = cores_tree(tmp_path / "sys", dict.fromkeys(range(2), None), "0-1")
    register = tree / "devices/system/cpu/cpu1/regs/identification"
    register.mkdir(parents=True)
    (register / "midr_el1").write_text("0x00000000411fd411\n")
    facts = read_facts(probe, "--sysfs", str(tree), "--procfs", str(tmp_path))
    assert (facts.cores[1].implementer, facts.cores[1].part) == ("0x41", "0xd41")


def test_odd_bytes_in_a_zones_name_keep_the_json_valid(probe: Path, tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/thermal/thermal_zone3"
    zone.mkdir(parents=True)
    (zone / "type").write_bytes(b'a"\\\x01\xff\xc3\xa9\tz\nrest')
    (zone / "temp").write_text("-5\n")
    facts = read_facts(probe, "--sysfs", str(tmp_path / "sys"), "--procfs", str(tmp_path))
    assert facts.zones == (ZoneReading(3, 'a"\\\x01\ufffdé\tz', -5),)


def test_a_sensor_with_a_number_too_big_or_empty_is_unknown(probe: Path, tmp_path: Path) -> None:
    for number, text in ((0, ""), (1, "99999999999999999999\n"), (2, "12 apples\n"), (3, " 42 \n")):
        zone = tmp_path / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text("t\n")
        (zone / "temp").write_text(text)
    facts = read_facts(probe, "--sysfs", str(tmp_path / "sys"), "--procfs", str(tmp_path))
    assert [zone.milli_c for zone in facts.zones] == [None, None, None, 42]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_may_not_be_read_is_null_and_named_with_its_errno(probe: Path, open_folder: Path) -> None:
    zone = open_folder / "class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("cpu\n")
    (zone / "temp").write_text("40000\n")
    (zone / "temp").chmod(0)
    (open_folder / "meminfo").write_text(MEMINFO)
    (open_folder / "meminfo").chmod(0)
    (open_folder / "closed").mkdir(mode=0)
    shutil.copy(probe, open_folder / "probe")
    argv = [str(open_folder / "probe"), "facts", "--sysfs", str(open_folder), "--procfs", str(open_folder)]
    for path in ("probe", "none", "probe/below", "closed/inside"):
        argv += ["--exists", str(open_folder / path)]
    user = 65534 if os.geteuid() == 0 else None  # root may read everything
    done = subprocess.run(argv, capture_output=True, timeout=10, check=True, user=user)
    facts = parse_facts(done.stdout)
    assert facts.zones == (ZoneReading(0, "cpu", None),)
    assert facts.mem_total_bytes is None
    assert {(denied.path, denied.errno) for denied in facts.denied} == {
        (str(zone / "temp"), "EACCES"),
        (str(open_folder / "meminfo"), "EACCES"),
    }
    assert [facts.exists[str(open_folder / path)] for path in ("probe", "none", "probe/below", "closed/inside")] == [
        True,
        False,
        False,
        None,
    ]


def test_a_path_with_odd_bytes_is_asked_for_and_named_back(probe: Path, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff \xc3\xa9"
    Path(os.fsdecode(path)).touch()
    facts = read_facts(probe, "--exists", os.fsdecode(path))
    assert facts.exists == {os.fsdecode(path): True}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "is no JSON object"),
        (b"{}", "has no"),
        (b'{"clusters":[["x"]]}', "has no"),
    ],
)
def test_what_is_no_answer_of_facts_is_refused_with_a_sentence(text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_facts(text)


def test_a_wrong_type_costs_that_fact_and_is_named(probe: Path) -> None:
    done = subprocess.run([str(probe), "facts"], capture_output=True, timeout=10, check=True)
    whole = parse_facts(done.stdout)
    assert whole.odd == {}
    facts = json.loads(done.stdout)
    facts["clusters"] = [["x"], "y", [0, None, 1]]
    facts["kernel"] = 6
    read = parse_facts(json.dumps(facts).encode())
    assert (read.kernel, read.machine, read.clusters) == (None, whole.machine, ((0, 1),))
    assert read.odd == {
        "kernel": "the probe tells 6, which is not a string",
        "clusters[0]": "the probe tells ['x'], which is not a list of whole numbers",
        "clusters[1]": "the probe tells 'y', which is not a list of whole numbers",
        "clusters[2]": "the probe tells [0, None, 1], which is not a list of whole numbers",
    }
