from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from harness.bench.gather import PYTHON_S, SERVICE_S, gather_facts, split_sections
from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, PhoneLostError
from harness.core.transport import ShellResult
from harness.phone.facts import Facts
from harness.phone.probed import ProbeFacts, read_probe_facts
from harness.phone.storage import Storage

GETPROP = b"""[ro.soc.model]: [SM8550]
[ro.build.version.sdk]: [34]
[ro.product.cpu.abilist]: [arm64-v8a]
"""
DF = b"""Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/block/dm-9    4000     1000      3000  25% /data
"""
GLES = b" ------------RE GLES------------\nGLES: Qualcomm, Adreno (TM) 741, OpenGL ES 3.2 V@0700.1\n"
THERMAL = b"Thermal Status: 1\nHAL Ready: true\n"
BATTERY = b"Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  level: 61\n"
NO_PYTHON = ShellResult(127, b"", b"sh: python3: inaccessible or not found\n")


class FakeProbe:
    def facts(self) -> ProbeFacts:
        return read_probe_facts({"kernel": "6.1", "features": ["asimddp"]})


class Phone:
    """A phone whose sources each answer, or raise; the script's sources come by ``files``."""

    name, base_dir = "toy-1", "/data/local/tmp/farm"

    def __init__(self, files: Mapping[str, tuple[bytes, int]], **services: Any) -> None:
        self.files = files
        self.services: dict[str, Any] = {
            "SurfaceFlinger": GLES,
            "thermalservice": THERMAL,
            "battery": BATTERY,
            "python3": NO_PYTHON,
            **services,
        }
        self.asked: list[str] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        if argv[0] == "sh" and argv[-1] == self.base_dir:
            return self._answer("script", deadline, ShellResult(0, self._sections(argv[-2]), b""))
        name = next(name for name in self.services if name in f"{argv[0]} {argv[-1]}" or name in argv[2])
        answer = self.services[name]
        return self._answer(name, deadline, answer if isinstance(answer, ShellResult) else ShellResult(0, answer, b""))

    def _answer(self, name: str, deadline: Deadline, answer: ShellResult) -> ShellResult:
        self.asked.append(name)
        failure = self.services.get(f"{name}_fails")
        if failure == "hangs":
            self.now += deadline.remaining_s()
            raise DeadlineError(self.name, deadline.what, deadline.seconds)
        if failure is not None:
            raise failure
        return answer

    def _sections(self, mark: str) -> bytes:
        return b"".join(
            f"{mark} begin {name}\n".encode() + text + f"\n{mark} end {code}\n".encode()
            for name, (text, code) in self.files.items()
        )


FILES = {
    "getprop": (GETPROP, 0),
    "drivers": (b"/vendor/lib64/libOpenCL.so\n", 1),
    "df": (DF, 0),
    "/proc/cpuinfo": (b"Hardware\t: Qualcomm Technologies, Inc SM8650\n", 0),
    "/sys/devices/soc0/soc_id": (b"519\n", 0),
    "/sys/class/kgsl/kgsl-3d0/gpu_model": (b"cat: /sys/class/kgsl/kgsl-3d0/gpu_model: Permission denied\n", 1),
    "/vendor/etc/public.libraries.txt": (b"libOpenCL.so\n", 0),
}


def gather(files: Mapping[str, tuple[bytes, int]] = FILES, seconds: float = 60.0, **services: Any):  # type: ignore[no-untyped-def]
    phone = Phone(files, **services)
    deadline = Deadline(seconds, "reading the phone's facts", phone.name, clock=phone.clock)
    return gather_facts(cast("Any", phone), cast("Any", FakeProbe()), deadline)


def test_every_source_becomes_its_facts() -> None:
    facts = gather()
    assert (facts.soc, facts.soc_name, facts.sdk) == ("SM8550", "Snapdragon 8 Gen 2", 34)
    assert facts.notes == ("/sys/devices/soc0/soc_id says 519, /proc/cpuinfo says Qualcomm Technologies, Inc SM8650",)
    assert (facts.gpu, facts.driver) == ("Adreno (TM) 741", "V@0700.1")
    assert (facts.opencl, facts.opencl_public) == ("/vendor/lib64/libOpenCL.so", ("libOpenCL.so",))
    assert (facts.storage_total_bytes, facts.storage_free_bytes) == (4000 * 1024, 3000 * 1024)
    assert facts.thermal is not None
    assert facts.battery is not None
    assert (facts.thermal.status, facts.battery.level_pct) == (1, 61)
    assert facts.nulls["python_mnn"] == (
        "the phone has no Python with the MNN package (sh: python3: inaccessible or not found)"
    )


def test_python_with_mnn_tells_its_version() -> None:
    assert gather(python3=b"warning: old\nMNN 3.6.1\n").python_mnn == "3.6.1"
    assert gather(python3=b"\n").python_mnn is None


@pytest.mark.parametrize(
    ("service", "names", "seconds"),
    [
        ("SurfaceFlinger", {"driver", "gles"}, SERVICE_S),
        ("thermalservice", {"thermal"}, SERVICE_S),
        ("battery", {"battery"}, SERVICE_S),
        ("python3", {"python_mnn"}, PYTHON_S),
    ],
)
def test_a_service_that_hangs_costs_its_own_facts(service: str, names: set[str], seconds: float) -> None:
    whole, facts = gather(), gather(**{f"{service}_fails": "hangs"})
    lost = {name for name, value in facts.as_dict().items() if value is None}
    assert lost - {name for name, value in whole.as_dict().items() if value is None} >= names - {"python_mnn"}
    assert all(f"did not answer within {seconds:g} s" in facts.nulls[name] for name in names)
    assert facts.soc_name == "Snapdragon 8 Gen 2"


def test_files_that_cannot_be_read_within_their_time_cost_their_own_facts() -> None:
    facts = gather(script_fails="hangs")
    assert facts.model is None
    assert facts.battery is not None
    assert facts.nulls["opencl"] == facts.nulls["storage_free_bytes"] == "the phone did not answer within 15 s"


def test_a_phone_that_hangs_as_a_whole_ends_with_the_deadline() -> None:
    with pytest.raises(DeadlineError, match="reading the phone's facts"):
        gather(seconds=5.0, battery_fails="hangs")


def test_a_phone_that_is_lost_is_lost() -> None:
    with pytest.raises(PhoneLostError):
        gather(thermalservice_fails=PhoneLostError("toy-1", "gone"))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"Can't find service: thermalservice\n", "this Android has no such service"),
        (ShellResult(127, b"sh: exec: dumpsys: not found\n", b""), "sh: exec: dumpsys: not found"),
        (ShellResult(124, b"", b""), "it did not answer within 8 s"),
        (ShellResult(143, b"IsStatus", b""), "it did not answer within 8 s"),
        (ShellResult(1, b"", b""), "it ended with exit code 1 and said nothing"),
    ],
)
def test_a_service_that_says_no_is_the_reason(answer: object, why: str) -> None:
    facts = gather(thermalservice=answer)
    assert (facts.thermal, facts.nulls["thermal"]) == (None, why)


def test_a_computer_without_any_of_it_has_reasons_for_all() -> None:
    said = (b"sh: getprop: not found\n", 127)
    nothing = ShellResult(127, b"", b"sh: dumpsys: not found\n")
    facts = gather(
        {"getprop": said, "drivers": said, "df": said},
        SurfaceFlinger=b"dumpsys: exit code 127\n",
        thermalservice=nothing,
        battery=nothing,
    )
    missing = {name for name, value in facts.as_dict().items() if value is None}
    assert missing <= set(facts.nulls)
    assert facts.nulls["driver"] == "dumpsys SurfaceFlinger has no GLES line: dumpsys: exit code 127"
    assert facts.nulls["battery"] == "sh: dumpsys: not found"
    assert facts.nulls["storage_free_bytes"] == "df says 'sh: getprop: not found'"


def test_sections_are_kept_apart_whatever_is_in_them() -> None:
    out = b"noise\nM begin a\none\n\nM end 0\nM begin b\r\ntwo\r\nM begin\r\n\r\nM end 7\r\nM begin c\ncut"
    sections = split_sections(out, "M")
    assert {name: (section.text, section.code) for name, section in sections.items()} == {
        "a": (b"one", 0),
        "b": (b"two\nM begin", 7),
    }
    assert split_sections(b"M end 0\nM begin d\nM end x\n", "M")["d"].code == -1


def test_the_script_runs_in_any_shell_and_tells_every_source(tmp_path: Path) -> None:
    class Here(Phone):
        def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
            done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
            return ShellResult(done.returncode, done.stdout, done.stderr)

    phone = Here({})
    phone.base_dir = str(tmp_path)
    facts = gather_facts(
        cast("Any", phone), cast("Any", FakeProbe()), Deadline(60, "reading the phone's facts", "this computer")
    )
    assert Storage(facts.storage_total_bytes, facts.storage_free_bytes).total_bytes
    assert facts.opencl is not None
    assert {"battery", "thermal", "driver"} <= set(facts.nulls)


class Counting:
    """This computer as a phone; notes how often its shell is asked."""

    name = "this-computer"

    def __init__(self, base_dir: Path, *, services: str = "", timeout: str = 'exec /usr/bin/env -- "$@"') -> None:
        self.base_dir = str(base_dir)
        self.calls = 0
        self._path = base_dir / "bin"
        self._path.mkdir()
        for name in ("sh", "cat", "grep", "ls", "df"):
            (self._path / name).symlink_to(str(shutil.which(name)))
        for name, script in (("dumpsys", services), ("timeout", timeout), ("python3", "echo MNN 1.2.3")):
            if script:
                (self._path / name).write_text(f"#!/bin/sh\n[ $0 = ${{0%timeout}} ] || shift\n{script}\n")
                (self._path / name).chmod(0o755)

    def shell(self, argv: Sequence[str], **_: object) -> ShellResult:
        self.calls += 1
        argv = [str(self._path / argv[0]), *argv[1:]]
        done = subprocess.run(argv, capture_output=True, timeout=30, check=False, env={"PATH": str(self._path)})
        return ShellResult(done.returncode, done.stdout, done.stderr)

    def facts(self) -> ProbeFacts:
        """The probe's own call is one, too."""
        self.calls += 1
        return FakeProbe().facts()


_SERVICES = """case $1 in
battery) printf 'Current Battery Service state:\\n  level: 61\\n';;
thermalservice) printf 'Thermal Status: 1\\n';;
SurfaceFlinger) printf 'noise\\nGLES: Qualcomm, Adreno (TM) 741, OpenGL ES 3.2 V@0700.1\\n';;
esac"""


def counted(phone: Counting) -> Facts:
    return gather_facts(cast("Any", phone), cast("Any", phone), Deadline(60, "reading facts", phone.name))


def test_all_facts_of_a_phone_cost_three_calls(tmp_path: Path) -> None:
    phone = Counting(tmp_path, services=_SERVICES)
    facts = counted(phone)
    assert phone.calls == 3
    assert facts.battery is not None
    assert facts.thermal is not None
    assert (facts.battery.level_pct, facts.thermal.status) == (61, 1)
    assert (facts.driver, facts.python_mnn) == ("V@0700.1", "1.2.3")


def test_where_a_phone_cannot_bound_a_service_each_is_asked_alone(tmp_path: Path) -> None:
    phone = Counting(tmp_path, services=_SERVICES, timeout="")
    facts = counted(phone)
    assert phone.calls == 3 + 4
    assert facts.battery is not None
    assert (facts.battery.level_pct, facts.python_mnn) == (61, "1.2.3")


def test_one_service_that_hangs_costs_the_others_nothing(tmp_path: Path) -> None:
    hangs = _SERVICES.replace("battery) ", "battery) exit 124;; other) ")
    facts = counted(Counting(tmp_path, services=hangs))
    assert facts.nulls["battery"] == "it did not answer within 8 s"
    assert facts.thermal is not None
    assert facts.python_mnn == "1.2.3"


def test_a_timeout_that_did_not_see_its_command_end_does_not_make_it_fail(tmp_path: Path) -> None:
    facts = counted(Counting(tmp_path, services=_SERVICES, timeout='"$@"; exit 127'))
    assert facts.battery is not None
    assert (facts.battery.level_pct, facts.driver, facts.python_mnn) == (61, "V@0700.1", "1.2.3")


def test_a_service_program_that_is_not_there_is_the_reason(tmp_path: Path) -> None:
    facts = counted(Counting(tmp_path))
    assert facts.battery is None
    assert "dumpsys" in facts.nulls["battery"]
