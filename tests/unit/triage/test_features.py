"""What a phone's CPU has beside what a build asks for."""

from __future__ import annotations

import pytest

from harness.triage.entry import read_entry
from harness.triage.readers.features import FeatureReader

PHONE = "Features\t: fp asimd atomics fphp asimdhp asimddp"


def told(*lines: str) -> list[str]:
    reader = FeatureReader()
    for number, line in enumerate(lines, 1):
        reader.take(read_entry(line.encode(), "x", number, "text"))
    return [entry.text for entry in reader.entries()]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((PHONE,), ["features: lacks=[i8mm]"]),
        (("Features : fp asimd crc32",), ["features: lacks=[asimddp, asimdhp, i8mm]"]),
        ((PHONE + " i8mm",), []),
        ((PHONE, "clang++ -O3 -march=armv8.6-a+dotprod+i8mm+sve2 x.cpp"), ["features: missing=[i8mm, sve2]"]),
        ((PHONE, "clang++ -march=armv8.2-a+dotprod+fp16 x.cpp"), []),
        ((PHONE, 'cpu_features = ["asimddp", "sme"]'), ["features: missing=[sme]"]),
        (('"cpu_features": ["asimd"],', 'cpu_features = ["asimddp"]'), ["features: missing=[asimddp]"]),
        (("clang++ -march=armv8.6-a+i8mm",), []),
        (("Features : ",), []),
        (("Flags:            fp asimd aes atomics asimdhp asimddp",), ["features: lacks=[i8mm]"]),
        (("Flags:            fpu vme de pse avx2",), []),
        ((PHONE, "cmake -DCMAKE_C_FLAGS=-march=armv8.7a"), ["features: missing=[i8mm]"]),
        ((PHONE, "-march=armv8.4-a+sve"), ["features: missing=[sve]"]),
        ((PHONE, "-march=armv9-a"), ["features: missing=[sve2]"]),
        ((PHONE, "-march=armv9.2-a"), ["features: missing=[i8mm, sve2]"]),
        ((PHONE, "-march=armv8-a", "-march=armv8-a+i8mm"), ["features: missing=[i8mm]"]),
        ((PHONE, "-mcpu=cortex-a76"), ["features: lacks=[i8mm]"]),
    ],
)
def test_what_the_phone_lacks_is_told(lines: tuple[str, ...], says: list[str]) -> None:
    assert told(*lines) == says


def test_both_lines_are_the_evidence() -> None:
    reader = FeatureReader()
    reader.take(read_entry(PHONE.encode(), "cpuinfo", 7, "text"))
    reader.take(read_entry(b"-march=armv8-a+sme", "build.log", 9, "text"))
    (entry,) = reader.entries()
    assert [(one.source, one.line) for one in entry.evidence] == [("cpuinfo", 7), ("build.log", 9)]
