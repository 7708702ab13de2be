"""What the phone's read-only files look like: ``/system``, ``/vendor``, ``/sys`` and its own files under ``/proc``.

Pure functions say what is where; :func:`write_tree` writes it.
"""

from __future__ import annotations

import fnmatch
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.virtual import vitals
from harness.virtual.profile import File, Profile
from harness.virtual.traits import Gpu

ABI_BY_MACHINE = {"x86_64": "x86_64", "aarch64": "arm64-v8a", "armv7l": "armeabi-v7a", "i686": "x86"}
PATH = "/system/bin:/vendor/bin"

# What a phone's toybox and its few further tools offer. What a PC's toybox has beyond that is left out.
# fmt: off
APPLETS = (
    "[", "awk", "base64", "basename", "bc", "bzcat", "bzip2", "cal", "cat", "chgrp", "chmod", "chown", "chrt",
    "cksum", "clear", "cmp", "comm", "cp", "cpio", "cut", "date", "dd", "df", "diff", "dirname", "dmesg",
    "dos2unix", "du", "echo", "egrep", "env", "expand", "expr", "fallocate", "false", "fgrep", "file", "find",
    "flock", "fmt", "free", "getconf", "grep", "groups", "gunzip", "gzip", "head", "hostname", "hwclock", "iconv",
    "id", "ifconfig", "inotifyd", "ionice", "iorenice", "kill", "killall", "ln", "logname", "ls", "lsof", "lspci",
    "lsusb", "md5sum", "microcom", "mkdir", "mkfifo", "mknod", "mktemp", "more", "mount", "mountpoint", "mv", "nc",
    "netcat", "netstat", "nice", "nl", "nohup", "nproc", "nsenter", "od", "paste", "patch", "pgrep", "pidof",
    "pkill", "pmap", "printenv", "printf", "prlimit", "ps", "pwd", "readelf", "readlink", "realpath", "renice",
    "rev", "rm", "rmdir", "sed", "seq", "setsid", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum",
    "sleep", "sort", "split", "stat", "strings", "stty", "sync", "sysctl", "tac", "tail", "tar", "taskset", "tee",
    "test", "time", "timeout", "top", "touch", "tr", "true", "truncate", "tty", "ulimit", "umount", "uname", "uniq",
    "unix2dos", "unlink", "unshare", "uptime", "usleep", "uudecode", "uuencode", "uuidgen", "vmstat", "watch", "wc",
    "which", "whoami", "xargs", "xxd", "yes", "zcat",
)
# fmt: on

SERVICES = ("am", "cmd", "df", "dumpsys", "input", "pm", "settings", "svc", "wm")
"""Commands that :mod:`harness.virtual.droid` answers."""

_GETPROP = """\
#!/system/bin/sh
# getprop [KEY [DEFAULT]]
if [ $# -eq 0 ]; then
  exec sed -n 's/^\\([^=]*\\)=\\(.*\\)$/[\\1]: [\\2]/p' /system/build.prop
fi
while IFS= read -r line; do
  case $line in
    "$1="*) echo "${line#*=}"; exit 0 ;;
  esac
done < /system/build.prop
echo "${2-}"
"""


@dataclass(frozen=True)
class Node:
    """A file (``content``), a link (``target``) or an empty folder (neither) of the phone."""

    path: str
    content: bytes | None = None
    target: str | None = None
    mode: int = 0o444


def _text(path: str, text: object, mode: int = 0o444) -> Node:
    return Node(path, f"{text}\n".encode(), mode=mode)


def host_abi(machine: str | None = None) -> str:
    """Return Android's name of this PC's instruction set: programs really run on it, so no description chooses it."""
    machine = machine or platform.machine()
    return ABI_BY_MACHINE.get(machine, machine)


def properties(profile: Profile, serial: str, abi: str) -> dict[str, str]:
    """Return all properties, sorted by name."""
    build, soc = profile.build, profile.soc
    known = {
        "ro.product.brand": build.brand,
        "ro.product.manufacturer": build.manufacturer,
        "ro.product.model": build.model,
        "ro.product.name": build.product,
        "ro.product.device": build.device,
        "ro.product.board": soc.platform,
        "ro.product.cpu.abi": abi,
        "ro.product.cpu.abilist": abi,
        "ro.product.cpu.abilist64": abi if "64" in abi else "",
        "ro.product.cpu.abilist32": "" if "64" in abi else abi,
        "ro.build.id": build.build_id,
        "ro.build.fingerprint": build.fingerprint,
        "ro.build.type": "user",
        "ro.build.tags": "release-keys",
        "ro.build.version.release": build.release,
        "ro.build.version.sdk": str(build.sdk),
        "ro.build.version.incremental": build.incremental,
        "ro.build.version.security_patch": build.security_patch,
        "ro.board.platform": soc.platform,
        "ro.hardware": soc.hardware,
        "ro.boot.hardware": soc.hardware,
        "ro.serialno": serial,
        "ro.boot.serialno": serial,
        "ro.debuggable": "0",
        "ro.secure": "1",
        "sys.boot_completed": "1",
        "init.svc.adbd": "running",
    }
    if build.sdk >= 31:  # Android 12 brought these two
        known |= {"ro.soc.manufacturer": soc.manufacturer, "ro.soc.model": soc.model}
    return dict(sorted((known | dict(profile.properties)).items()))


def cpuinfo(profile: Profile) -> str:
    """Return the phone's ``/proc/cpuinfo``, as an ARM kernel words it."""
    blocks: list[str] = []
    slowest = profile.cpu.clusters[0]
    head = f"Processor\t: AArch64 Processor rev {slowest.revision} (aarch64)\n" if profile.cpu.processor_line else ""
    tail = f"\nHardware\t: {profile.cpu.hardware_line}\n" if profile.cpu.hardware_line else ""
    for cluster in profile.cpu.clusters:
        for _ in range(cluster.cores):
            blocks.append(
                f"processor\t: {len(blocks)}\n"
                f"BogoMIPS\t: {profile.cpu.bogomips:.2f}\n"
                f"Features\t: {' '.join(profile.cpu.features)}\n"
                f"CPU implementer\t: 0x{cluster.implementer:02x}\n"
                "CPU architecture: 8\n"
                f"CPU variant\t: 0x{cluster.variant:x}\n"
                f"CPU part\t: 0x{cluster.part:03x}\n"
                f"CPU revision\t: {cluster.revision}\n"
            )
    return head + "\n".join(blocks) + "\n" + tail


def sysfs(profile: Profile) -> Iterator[Node]:
    """Yield the files under ``/sys`` of an idle phone; :mod:`harness.virtual.vitals` says which of them change."""
    cpu = "/sys/devices/system/cpu"
    last = profile.cpu.cores - 1
    for name in ("possible", "present", "online"):
        yield _text(f"{cpu}/{name}", f"0-{last}" if last else "0")
    yield _text(f"{cpu}/offline", "")
    yield _text(f"{cpu}/kernel_max", 31)
    for first, cluster in vitals.clusters(profile):
        cores = range(first, first + cluster.cores)
        policy = f"{vitals.CPUFREQ}/policy{first}"
        listed = " ".join(map(str, cores))
        table = sorted(cluster.table_khz, reverse=cluster.clocks_descend)
        for name, value in {
            "affected_cpus": listed,
            "related_cpus": listed,
            "cpuinfo_min_freq": cluster.min_khz,
            "cpuinfo_max_freq": cluster.max_khz,
            "scaling_min_freq": cluster.min_khz,
            "scaling_governor": profile.cpu.governor,
            "scaling_available_frequencies": " ".join(map(str, table)) + " ",
        }.items():
            yield _text(f"{policy}/{name}", value)
        for core in cores:
            yield Node(f"{cpu}/cpu{core}/cpufreq", target=f"../cpufreq/policy{first}")
            yield _text(f"{cpu}/cpu{core}/cpu_capacity", cluster.capacity)
            yield from _cache_nodes(f"{cpu}/cpu{core}/cache", cluster.l2_kb, profile.cpu.l3_kb)
    yield from _thermal_nodes(profile)
    yield from _power_nodes(profile)
    if profile.gpu.kgsl_model is not None:
        yield from _kgsl_nodes(profile.gpu, profile.gpu.kgsl_model)
    for path, text in vitals.sysfs_texts(profile, vitals.idle(profile)):
        yield Node(path, text.encode())


def _cache_nodes(folder: str, l2_kb: int | None, l3_kb: int | None) -> Iterator[Node]:
    """What a kernel tells of one core's caches; those of level 1 do not differ here."""
    if l2_kb is None:
        return
    caches = [(1, "Data", 64), (1, "Instruction", 64), (2, "Unified", l2_kb)]
    caches += [(3, "Unified", l3_kb)] if l3_kb is not None else []
    for index, (level, kind, size_kb) in enumerate(caches):
        for name, value in {"level": level, "type": kind, "size": f"{size_kb}K"}.items():
            yield _text(f"{folder}/index{index}/{name}", value)


def _thermal_nodes(profile: Profile) -> Iterator[Node]:
    def linked(name: str) -> Node:
        return Node(f"/sys/class/thermal/{name}", target=f"../../devices/virtual/thermal/{name}")

    for number, zone in enumerate(profile.zones):
        yield _text(f"{vitals.THERMAL}/thermal_zone{number}/type", zone.type)
        yield linked(f"thermal_zone{number}")
    for number, name in enumerate(vitals.cooling_names(profile)):
        yield _text(f"{vitals.THERMAL}/cooling_device{number}/type", name)
        yield _text(f"{vitals.THERMAL}/cooling_device{number}/max_state", len(profile.heat.caps) - 1)
        yield linked(f"cooling_device{number}")


def _power_nodes(profile: Profile) -> Iterator[Node]:
    yield _text(f"{vitals.POWER}/battery/type", "Battery")
    yield _text(f"{vitals.POWER}/battery/health", "Good")
    yield _text(f"{vitals.POWER}/battery/present", 1)
    yield _text(f"{vitals.POWER}/battery/technology", profile.battery.technology)
    yield _text(f"{vitals.POWER}/usb/type", "USB")
    yield _text(f"{vitals.POWER}/ac/type", "Mains")


def _kgsl_nodes(gpu: Gpu, model: str) -> Iterator[Node]:
    """What Qualcomm's GPU driver shows; the GPU does nothing, so it stays at its lowest clock."""
    clocks = sorted(gpu.clocks_mhz, reverse=True) or [300]
    for name, value in {
        "gpu_model": model,
        "gpu_busy_percentage": "0 %",
        "gpubusy": f"{0:>7} {0:>7}",
        "gpuclk": clocks[-1] * 1_000_000,
        "max_gpuclk": clocks[0] * 1_000_000,
        "clock_mhz": clocks[-1],
        "min_clock_mhz": clocks[-1],
        "freq_table_mhz": " ".join(map(str, clocks)) + " ",
        "gpu_available_frequencies": " ".join(str(clock * 1_000_000) for clock in clocks) + " ",
        "num_pwrlevels": len(clocks),
        "thermal_pwrlevel": 0,
        "throttling": 1,
        "reset_count": 0,
    }.items():
        yield _text(f"{vitals.KGSL}/{name}", value)


def with_denials(nodes: Iterable[Node], denied: Iterable[str]) -> Iterator[Node]:
    """Take all rights from files that a pattern names, whether by their own path or through a linked folder."""
    nodes = list(nodes)
    patterns = list(denied)
    links = [(node.path, _resolved(node)) for node in nodes if node.target is not None]
    for node in nodes:
        names = [node.path]
        names += [link + node.path[len(folder) :] for link, folder in links if node.path.startswith(folder + "/")]
        is_denied = any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
        yield Node(node.path, node.content, node.target, 0) if is_denied and node.content is not None else node


def _resolved(link: Node) -> str:
    parts = link.path.split("/")[:-1]
    for part in (link.target or "").split("/"):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def userland(toybox: str | None, toybox_applets: Iterable[str], shell: str, tools: Mapping[str, str]) -> Iterator[Node]:
    """Yield links for the shell and the tools: toybox where it has them, else this PC's own.

    Args:
        toybox: path of the toybox program, if there is one.
        toybox_applets: what it offers.
        shell: path of the program to be ``/system/bin/sh``.
        tools: paths of further programs by name.
    """
    yield Node("/system/bin/sh", target=shell)
    offered = set(toybox_applets) if toybox else set()
    if toybox:
        yield Node("/system/bin/toybox", target=toybox)
    for name in APPLETS:
        if name in offered:
            yield Node(f"/system/bin/{name}", target="toybox")
        elif name in tools:
            yield Node(f"/system/bin/{name}", target=tools[name])


def system_files(props: Mapping[str, str], python_argv: str, python_path: str) -> Iterator[Node]:
    """Yield the files under ``/system`` that are not tools."""
    lines = "".join(f"{key}={value}\n" for key, value in props.items())
    yield Node("/system/build.prop", lines.encode())
    yield Node("/system/bin/getprop", _GETPROP.encode(), mode=0o555)
    yield Node("/system/bin/getenforce", b"#!/system/bin/sh\necho Enforcing\n", mode=0o555)
    wrapper = f'#!/system/bin/sh\nPYTHONPATH={python_path} exec {python_argv} -s -B "$@"\n'
    yield Node("/system/bin/python3", wrapper.encode(), mode=0o555)
    yield _text("/system/etc/passwd", "root:x:0:0:root:/:/system/bin/sh\nshell:x:2000:2000:shell:/:/system/bin/sh")
    yield _text("/system/etc/group", "root:x:0:\nshell:x:2000:")
    yield _text("/system/etc/hosts", "127.0.0.1 localhost\n::1 ip6-localhost")
    start = "import sys;sys.path.insert(0,'/system/lib');from droid.main import main;main('{}',sys.argv[1:])"
    for name in SERVICES:
        line = f'#!/system/bin/sh\nexec {python_argv} -I -S -B -c "{start.format(name)}" "$@"\n'
        yield Node(f"/system/bin/{name}", line.encode(), mode=0o555)
    for folder in ("/system/python", "/system/lib", "/vendor/bin", "/vendor/lib64"):
        yield Node(folder)


def further_file(file: File) -> Node:
    """Return a file that the description adds to the phone."""
    # Without a text: what looks like a 64-bit ELF library to whoever reads its first bytes only.
    library = b"\x7fELF\x02\x01\x01".ljust(file.size_bytes, b"\0")
    return Node(file.path, library if file.text is None else file.text.encode())


def write_tree(nodes: Iterable[Node], root: Path) -> None:
    """Write ``nodes`` under ``root``, which must not exist; of two with one path the later wins."""
    folders: set[Path] = set()
    for node in {node.path: node for node in nodes}.values():
        place = root / node.path.lstrip("/")
        folder = place if node.content is None and node.target is None else place.parent
        if folder not in folders:
            folder.mkdir(parents=True, exist_ok=True)
            folders.add(folder)
        if node.target is not None:
            place.symlink_to(node.target)
        elif node.content is not None:
            place.write_bytes(node.content)
            place.chmod(node.mode)


def remove_tree(root: Path) -> None:
    """Remove a written tree; harmless if it is not there."""
    shutil.rmtree(root, ignore_errors=True)
