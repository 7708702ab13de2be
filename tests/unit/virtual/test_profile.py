from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.virtual.profile import load_profile, phones_dir, profile_names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in phones_dir().glob("*.toml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def change(folder: Path, old: str, new: str) -> None:
    text = (folder / "high.toml").read_text()
    assert old in text
    (folder / "high.toml").write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", profile_names())
def test_every_description_that_comes_with_us_is_sound(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.cpu.cores == 8
    assert profile.cpu.clusters[-1].capacity == 1024
    assert profile.memory.available_kb < profile.memory.total_kb


def test_the_three_kinds_differ_in_memory() -> None:
    gib = {name: load_profile(name).memory.total_kb / 1024**2 for name in ("high", "mid", "low")}
    assert 11 <= gib["high"] < 12
    assert 7 <= gib["mid"] < 8
    assert 3.5 <= gib["low"] < 4


def test_only_the_phone_described_with_opencl_has_a_gpu_library() -> None:
    files = [file.path for file in load_profile("high-opencl").files]
    assert files == ["/vendor/lib64/libOpenCL.so", "/vendor/etc/public.libraries.txt"]
    assert all(load_profile(name).files == () for name in ("high", "mid", "low"))


def test_an_extension_keeps_what_it_does_not_change(folder: Path) -> None:
    (folder / "mine.toml").write_text('extends = "high"\n[build]\nmodel = "Mine"\n')
    mine, high = load_profile("mine", folder), load_profile("high", folder)
    assert mine.build.model == "Mine"
    assert mine.build.product == high.build.product
    assert mine.cpu == high.cpu


def test_a_profile_nobody_described_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"described as 'pixel': choose one of .*high, high-opencl, .*low, .*mid"):
        load_profile("pixel")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("sdk = 34", 'sdk = "34"', r"high\.toml: build\.sdk is '34': input should be a valid integer"),
        ("sdk = 34", "sdk = 12", r"build\.sdk is 12: input should be greater than or equal to 23"),
        ("sdk = 34", "sdkk = 34", r"build\.sdk is missing|build\.sdkk is not a known key"),
        ("[soc]\n", "[soc]\ncolour = 1\n", r"soc\.colour is not a known key; allowed are manufacturer, model, "),
        ("[build]\n", "[extra]\n[build]\n", r"extra is not a known key; allowed are name, build, soc, cpu"),
        ("cores = 2", "cores = 0", r"cpu\.clusters\.0\.cores is 0: input should be greater than or equal to 1"),
        ("max_khz = 2265600", "max_khz = 400000", r"cpu\.clusters\.0 .*idle_khz and max_khz must ascend"),
        ("free_kb = 1874208", "free_kb = 99999999", r"memory .*free_kb must not exceed available_kb"),
        ('model = "SM8650"', 'model = "a\\nb"', r"soc\.model is 'a\\nb': string should match"),
        ("sdk = 34", "sdk = ", r"high\.toml is not TOML"),
    ],
)
def test_a_mistake_names_file_key_and_what_is_allowed(folder: Path, old: str, new: str, says: str) -> None:
    change(folder, old, new)
    with pytest.raises(ConfigError, match=says) as caught:
        load_profile("high", folder)
    assert "high.toml" in str(caught.value)


@pytest.mark.parametrize("path", ["/data/x", "/vendor/../etc/x", "vendor/x", "/vendor/", "/vendor/.x"])
def test_a_file_lies_in_the_read_only_part(folder: Path, path: str) -> None:
    (folder / "mine.toml").write_text(f'extends = "high"\n[[files]]\npath = "{path}"\n')
    with pytest.raises(ConfigError, match=r"files\.0\.path"):
        load_profile("mine", folder)


def test_extensions_that_go_in_a_circle_are_refused(folder: Path) -> None:
    (folder / "a.toml").write_text('extends = "b"\n')
    (folder / "b.toml").write_text('extends = "a"\n')
    with pytest.raises(ConfigError, match="break the circle"):
        load_profile("a", folder)


def test_an_extension_of_nothing_is_refused(folder: Path) -> None:
    (folder / "a.toml").write_text('extends = "none"\n')
    with pytest.raises(ConfigError, match="extends is 'none': choose one of a, android6, denied, exynos, high, "):
        load_profile("a", folder)


@pytest.mark.parametrize("name", profile_names())
def test_an_idle_phone_is_cool_enough_to_start(name: str) -> None:
    degrees = [zone.raw / 1000 for zone in load_profile(name).zones if 10_000 < zone.raw < 100_000]
    assert len(degrees) >= 4
    assert max(degrees) < 36.0
