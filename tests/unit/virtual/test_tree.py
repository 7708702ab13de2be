from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.virtual import tree
from harness.virtual.features import banner
from harness.virtual.profile import load_profile
from harness.virtual.tree import Node


def contents(name: str) -> dict[str, bytes | None]:
    return {node.path: node.content for node in tree.sysfs(load_profile(name))}


def test_clocks_and_cores_are_laid_out_by_cluster() -> None:
    files = contents("high")
    cpu = "/sys/devices/system/cpu"
    assert files[f"{cpu}/possible"] == b"0-7\n"
    assert files[f"{cpu}/cpufreq/policy2/related_cpus"] == b"2 3 4 5 6\n"
    assert files[f"{cpu}/cpufreq/policy7/cpuinfo_max_freq"] == b"3302400\n"
    links = {node.path: node.target for node in tree.sysfs(load_profile("high")) if node.target}
    assert links[f"{cpu}/cpu4/cpufreq"] == "../cpufreq/policy2"


def test_a_core_tells_its_caches_where_the_description_knows_them() -> None:
    files = contents("high")
    caches = "/sys/devices/system/cpu/cpu7/cache"
    assert [files[f"{caches}/index2/{name}"] for name in ("level", "type", "size")] == [
        b"2\n",
        b"Unified\n",
        b"2048K\n",
    ]
    assert files[f"{caches}/index3/size"] == b"12288K\n"
    assert not [path for path in contents("low") if "/cache/" in path]


def test_cpuinfo_has_a_block_for_every_core() -> None:
    text = tree.cpuinfo(load_profile("low"))
    assert text.startswith("Processor\t: AArch64 Processor rev 0 (aarch64)\nprocessor\t: 0\n")
    assert text.endswith("\n\nHardware\t: MT6769Z\n")
    blocks = text[text.index("processor") : text.index("\nHardware")].strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [f"processor\t: {core}" for core in range(8)]
    assert ["0xd0a" in block for block in blocks] == [False] * 6 + [True] * 2


def test_soc_properties_came_with_android_12() -> None:
    profile = load_profile("low")
    assert tree.properties(profile, "S", "x86_64")["ro.soc.model"] == "MT6769Z"
    older = profile.model_copy(update={"build": profile.build.model_copy(update={"sdk": 30})})
    assert "ro.soc.model" not in tree.properties(older, "S", "x86_64")


def test_the_abi_is_that_of_this_computer() -> None:
    assert tree.host_abi("aarch64") == "arm64-v8a"
    props = tree.properties(load_profile("high"), "S", tree.host_abi("x86_64"))
    assert (props["ro.product.cpu.abi"], props["ro.product.cpu.abilist"]) == ("x86_64", "x86_64")


@pytest.mark.parametrize("name", ["high", "mid", "low", "high-opencl"])
def test_nothing_a_phone_says_tells_that_it_is_virtual(name: str) -> None:
    profile = load_profile(name)
    said = " ".join([*tree.properties(profile, "S", "x86_64"), *tree.properties(profile, "S", "x86_64").values()])
    said += banner(profile)
    for word in ("virtual", "mnn", "farm", "sandbox", "emulat", "qemu", "ranchu"):
        assert word not in said.lower()


def test_denials_match_a_file_by_its_own_path_and_through_a_link() -> None:
    nodes = [
        Node("/sys/devices/zone0/temp", b"1\n"),
        Node("/sys/class/zone0", target="../devices/zone0"),
        Node("/sys/devices/zone1/temp", b"2\n"),
    ]
    by_link = {node.path: node.mode for node in tree.with_denials(nodes, ["/sys/class/zone0/temp"])}
    by_star = {node.path: node.mode for node in tree.with_denials(nodes, ["/sys/devices/*/temp"])}
    assert (by_link["/sys/devices/zone0/temp"], by_link["/sys/devices/zone1/temp"]) == (0, 0o444)
    assert (by_star["/sys/devices/zone0/temp"], by_star["/sys/devices/zone1/temp"]) == (0, 0)


def test_toybox_comes_before_this_computers_tools() -> None:
    tools = {"ls": "/usr/bin/ls", "awk": "/usr/bin/mawk", "gcc": "/usr/bin/gcc"}
    links = {
        node.path: node.target for node in tree.userland("/usr/bin/toybox", ["ls", "poweroff"], "/usr/bin/mksh", tools)
    }
    assert links["/system/bin/ls"] == "toybox"
    assert links["/system/bin/awk"] == "/usr/bin/mawk"
    assert links["/system/bin/sh"] == "/usr/bin/mksh"
    assert "/system/bin/gcc" not in links
    assert "/system/bin/poweroff" not in links
    without = {node.path: node.target for node in tree.userland(None, [], "/usr/bin/dash", tools)}
    assert without["/system/bin/ls"] == "/usr/bin/ls"
    assert "/system/bin/toybox" not in without


def test_a_tree_is_written_with_links_and_modes(tmp_path: Path) -> None:
    nodes = [Node("/a/empty"), Node("/a/file", b"one"), Node("/a/file", b"two", mode=0o555), Node("/b", target="a")]
    tree.write_tree(nodes, tmp_path / "root")
    assert (tmp_path / "root/b/file").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "root/a/file").stat().st_mode) == 0o555
    assert (tmp_path / "root/a/empty").is_dir()
    tree.remove_tree(tmp_path / "root")
    assert not (tmp_path / "root").exists()
