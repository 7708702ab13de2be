"""Facts of virtual phones through the real adb and the real probe, against what their descriptions say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.bench.phone import ConnectedPhone, connect
from harness.cli import app
from harness.core.provider import Endpoint
from harness.phone.thermal import celsius
from harness.plan.tiers import load_tier_rules
from harness.virtual.profile import Profile, load_profile

PHONES = ("high-opencl", "exynos", "kirin")


@pytest.fixture(scope="module")
def connected(farm_cache: Path, virtual_phones: list[Endpoint]) -> dict[str, ConnectedPhone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(farm_cache))  # its probe is built already
        phones = [connect(endpoint, load_tier_rules()) for endpoint in virtual_phones]
    return dict(zip(PHONES, phones, strict=True))


@pytest.fixture(params=PHONES)
def phone(request: pytest.FixtureRequest, connected: dict[str, ConnectedPhone]) -> tuple[ConnectedPhone, Profile]:
    return connected[request.param], load_profile(request.param)


def test_facts_are_what_the_phones_description_says(phone: tuple[ConnectedPhone, Profile]) -> None:
    facts, profile = phone[0].facts, phone[1]
    assert (facts.model, facts.security_patch) == (profile.build.model, profile.build.security_patch)
    assert (facts.android_release, facts.sdk) == (profile.build.release, profile.build.sdk)
    assert facts.build_type == "user"
    assert [len(cluster.cpus) for cluster in facts.cpu_clusters] == [c.cores for c in profile.cpu.clusters]
    assert [cluster.max_khz for cluster in facts.cpu_clusters] == [c.max_khz for c in profile.cpu.clusters]
    l2_kb, l3_kb = profile.cpu.clusters[-1].l2_kb, profile.cpu.l3_kb
    assert facts.llc_bytes == (None if l2_kb is None else (l2_kb + (l3_kb or 0)) * 1024)
    assert facts.gpu == profile.gpu.renderer
    assert facts.gles == profile.gpu.version
    assert facts.battery is not None
    assert facts.battery.overridden is False
    assert facts.storage_total_bytes == profile.data_kb * 1024
    assert [zone.type for zone in facts.zones] == [zone.type for zone in profile.zones]
    assert all(zone.celsius == celsius(zone.type, zone.milli_c) for zone in facts.zones)
    assert (facts.thermal is None) == (profile.build.sdk < 29)
    assert facts.notes == ()


def test_each_phones_chip_and_cores_have_their_names(connected: dict[str, ConnectedPhone]) -> None:
    names = {name: (phone.facts.soc_vendor, phone.facts.soc_name) for name, phone in connected.items()}
    assert names == {
        "high-opencl": ("Qualcomm", "Snapdragon 8 Gen 3"),
        "exynos": ("Samsung", "Exynos 9820/9825"),
        "kirin": ("HiSilicon", "Kirin 970"),
    }
    assert [c.core for c in connected["exynos"].facts.cpu_clusters] == ["Cortex-A55", "Cortex-A75", "Exynos M4"]
    assert connected["kirin"].facts.instructions == ()


def test_a_driver_is_told_by_file_and_by_version(connected: dict[str, ConnectedPhone]) -> None:
    assert connected["high-opencl"].facts.opencl == "/vendor/lib64/libOpenCL.so"
    assert connected["high-opencl"].facts.opencl_public == ("libOpenCL.so",)
    assert connected["exynos"].facts.opencl == ""
    assert "opencl_public" in connected["exynos"].facts.nulls
    drivers = {name: phone.info.driver for name, phone in connected.items()}
    assert all(driver and driver in load_profile(name).gpu.version for name, driver in drivers.items())
    assert all("driver" not in phone.nulls for phone in connected.values())


def test_whatever_a_phone_refuses_is_null_with_the_reason(phone: tuple[ConnectedPhone, Profile]) -> None:
    facts, profile = phone[0].facts, phone[1]
    missing = {field.name for field in dataclasses.fields(facts) if getattr(facts, field.name) is None}
    assert missing <= set(facts.nulls)
    for path in profile.denied:
        if path.startswith("/sys/class/thermal/thermal_zone") and path.endswith("/temp"):
            number = int(path.removeprefix("/sys/class/thermal/thermal_zone").removesuffix("/temp"))
            assert facts.nulls[f"zones[{number}]"] == f"{path}: EACCES"
            assert next(zone for zone in facts.zones if zone.zone == number).celsius is None


def test_diff_asks_two_phones_and_compares_what_they_are(
    farm_cache: Path, virtual_phones: list[Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(farm_cache))
    one, _, other = virtual_phones
    words = (one.transport_serial, other.transport_serial, "--adb", f"{one.adb_host}:{one.adb_port}")
    result = CliRunner().invoke(app, ["diff", "--json", *words])
    assert result.exit_code == 1
    differs = {row["field"]: (row["a"], row["b"]) for row in json.loads(result.output)["differences"]}
    assert differs["sdk"] == (load_profile(PHONES[0]).build.sdk, load_profile(PHONES[2]).build.sdk)
    assert differs["gpu"] == (load_profile(PHONES[0]).gpu.renderer, load_profile(PHONES[2]).gpu.renderer)
