"""One virtual phone: its files written, its sandbox started."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.virtual import children, ports, tree
from harness.virtual.profile import Profile
from harness.virtual.sandbox import Kind, Mount, Plan, all_mounts, bind, sandbox_argv, system_mounts
from harness.virtual.state import PhoneState
from harness.virtual.userland import Python, Tools

_ADBD = Path(__file__).with_name("adbd")


@dataclass(frozen=True)
class Host:
    """What all phones share: the kind of sandbox, interpreter and tools of this PC."""

    sandbox: Kind
    python: Python
    tools: Tools


class VirtualPhone:
    """A running phone. Starting it returns at once; adbd takes a moment longer to answer."""

    def __init__(self, state: PhoneState, profile: Profile, host: Host) -> None:
        self.state = state
        self.profile = profile
        listener = ports.listen()
        with listener:
            self.serial = f"127.0.0.1:{listener.getsockname()[1]}"
            state.prepare()
            _write_files(state, profile, host)
            argv = sandbox_argv(host.sandbox, _plan(state, profile, host, listener.fileno()))
            self.process: subprocess.Popen[bytes] = children.spawn(
                argv, fd=listener.fileno(), log=state.log, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"}
            )

    def log_tail(self) -> str:
        """Return the last line of its log."""
        lines = self.state.log.read_bytes().splitlines()
        return lines[-1].decode("utf-8", "replace")[:300] if lines else ""


def _write_files(state: PhoneState, profile: Profile, host: Host) -> None:
    tree.remove_tree(state.run)
    props = tree.properties(profile, state.serial, tree.host_abi())
    tools = host.tools
    nodes = [
        *tree.with_denials(tree.sysfs(profile), profile.denied),
        *tree.userland(tools.toybox, tools.toybox_applets, tools.shell, tools.others),
        *tree.system_files(props, host.python.command, host.python.path),
        *(tree.Node(file.path, tree.stand_in(file.size_bytes)) for file in profile.files),
        tree.Node("/system/lib/adbd"),
        *(tree.Node(mount.place) for mount in host.python.mounts),
        tree.Node("/log"),
        tree.Node("/proc/meminfo", tree.meminfo(profile).encode()),
        tree.Node("/proc/cpuinfo", tree.cpuinfo(profile).encode()),
        tree.Node("/proc/boot_id", f"{uuid.uuid4()}\n".encode()),
    ]
    if (cache := Path("/etc/ld.so.cache")).is_file():  # where this PC's libraries are
        nodes.append(tree.Node("/system/etc/ld.so.cache", cache.read_bytes()))
    tree.write_tree(nodes, state.run)


def _phone_mounts(state: PhoneState) -> Iterator[Mount]:
    for folder in ("sys", "system", "vendor"):
        yield bind(state.run / folder, f"/{folder}")
    yield bind(_ADBD, "/system/lib/adbd")
    yield bind(state.run / "proc" / "meminfo", "/proc/meminfo")
    yield bind(state.run / "proc" / "cpuinfo", "/proc/cpuinfo")
    yield bind(state.run / "proc" / "boot_id", "/proc/sys/kernel/random/boot_id")
    yield bind(state.logs, "/dev/log", writable=True)
    yield bind(state.data, "/data", writable=True)
    yield bind(state.shared_storage, "/storage/emulated/0", writable=True)
    yield Mount("symlink", "/storage/emulated/0", "/sdcard")
    yield Mount("symlink", "/system/bin", "/bin")
    yield Mount("symlink", "/system/etc", "/etc")


def _plan(state: PhoneState, profile: Profile, host: Host, listen_fd: int) -> Plan:
    environment = {
        "PATH": tree.PATH,
        "PYTHONPATH": "/system/lib",
        "ANDROID_ROOT": "/system",
        "ANDROID_DATA": "/data",
        "ANDROID_STORAGE": "/storage",
        "EXTERNAL_STORAGE": "/sdcard",
        "HOME": "/",
        "HOSTNAME": profile.build.device,
        "LOGNAME": "shell",
        "USER": "shell",
        "SHELL": "/bin/sh",
        "TMPDIR": "/data/local/tmp",
    }
    argv = ["-s", "-S", "-B", "-m", "adbd", "--listen-fd", str(listen_fd), "--banner", tree.banner(profile)]
    interpreter = host.python.command.split()
    if interpreter[0] == "env":
        name, _, value = interpreter[1].partition("=")
        environment[name] = value
        interpreter = interpreter[2:]
    return Plan(
        profile.build.device,
        all_mounts(system_mounts(), _phone_mounts(state), host.python.mounts),
        environment,
        (*interpreter, *argv),
    )
