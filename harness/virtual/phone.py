"""One virtual phone: its files written, its sandbox started."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import HostError
from harness.virtual import children, mailbox, memory, ports, proctree, tree
from harness.virtual.adbd.condition import Condition
from harness.virtual.adbd.control import MAX_PACKET
from harness.virtual.behaviour import Behaviour, BehaviourLoop
from harness.virtual.features import banner
from harness.virtual.logbuffer import phone_log
from harness.virtual.profile import Profile
from harness.virtual.sandbox import Kind, Mount, Plan, all_mounts, bind, sandbox_argv, system_mounts
from harness.virtual.spec import encode_spec
from harness.virtual.state import PhoneState
from harness.virtual.userland import Python, Tools

_ADBD = Path(__file__).with_name("adbd")
_DROID = Path(__file__).with_name("droid")
_LOG_COMMANDS = ("logcat", "log")
_ANSWER_SECONDS = 5.0
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Host:
    """What all phones share: the kind of sandbox, interpreter and tools of this PC."""

    sandbox: Kind
    python: Python
    tools: Tools


class VirtualPhone:
    """A phone that can be switched on and off. Switching on returns at once; adbd takes a moment longer to answer."""

    def __init__(self, state: PhoneState, profile: Profile, host: Host, life: BehaviourLoop) -> None:
        """Prepare one that is off.

        Raises:
            HostError: there is no free port.
            OSError: its folder cannot be written.
        """
        self.home = state
        """The phone's own state; :attr:`state` is that of whoever is in its place."""
        self.state = state
        self.own_profile = profile
        self.profile = profile
        self.condition = Condition()
        self.process: subprocess.Popen[bytes] | None = None
        self.pidfd = -1
        """Readable when the phone has ended; -1 while it is off."""
        self._host = host
        self._life = life
        self._behaviour: Behaviour | None = None
        self._wire: socket.socket | None = None
        self._last_id = 0
        self._events: list[str] = []
        self._listener = ports.listen()
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        state.prepare()
        state.log.write_bytes(b"")

    def boot(self, reason: str, condition: Condition) -> None:
        """Switch it on.

        Args:
            reason: what ``ro.boot.bootreason`` is to say.
            condition: how adbd is to behave.

        Raises:
            OSError: its files cannot be written.
        """
        self.condition = condition
        self.state.prepare()
        _write_files(self.state, self.profile, self._host, reason)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fds = (self._listener.fileno(), theirs.fileno())
            argv = sandbox_argv(self._host.sandbox, _plan(self.state, self.profile, self._host, *fds))
            self.process = children.spawn(
                argv, fds=fds, log=self.state.log, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"}
            )
        self.pidfd = os.pidfd_open(self.process.pid)
        self._wire = ours
        self._behaviour = Behaviour(self.profile, self.state, self.process.pid, phone_log(self.state), time.monotonic())
        self._life.add(self._behaviour)
        self.tell_condition()

    def power_off(self) -> None:
        """End every process of the phone and wait until they are gone; harmless while it is off."""
        process, self.process = self.process, None
        if process is None:
            return
        if self._behaviour is not None:
            self._life.remove(self._behaviour)
            self._behaviour = None
        init = next(iter(proctree.children(process.pid)), None)
        # The end of a process 1 is the end of its namespace, and the sandbox ends after it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(init or process.pid, signal.SIGKILL)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(self.pidfd)
        self.pidfd = -1
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        tree.remove_tree(self.state.run)

    def close(self) -> None:
        """Switch it off and give its port back."""
        self.power_off()
        self._listener.close()

    def shut_door(self) -> None:
        """Refuse connections; the port stays ours."""
        # A second shutdown would stick to the socket. adbd may have done it already.
        if self._listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            self._listener.shutdown(socket.SHUT_RDWR)

    def open_door(self) -> None:
        """Take connections again."""
        self._listener.listen(ports.BACKLOG)

    @property
    def wire_fd(self) -> int:
        """Readable when adbd has something to say; -1 while the phone is off."""
        return self._wire.fileno() if self._wire is not None else -1

    def tell_condition(self, *, drop: bool = False, wait: bool = False) -> None:
        """Let adbd behave as :attr:`condition` says, and end all connections if ``drop``.

        Raises:
            HostError: adbd does not answer (with ``wait``).
        """
        self.order({"do": "condition", "condition": asdict(self.condition), "drop": drop}, wait=wait)

    def order(self, request: Mapping[str, Any], *, wait: bool = True) -> None:
        """Send adbd an order and wait until it is done.

        Raises:
            HostError: the phone is off, adbd does not answer or it says no.
        """
        if self._wire is None:
            raise HostError(f"{self.state.name} is switched off", remedy="heal it first")
        self._last_id += 1
        self._wire.send(json.dumps({"id": self._last_id, **request}).encode())
        end = time.monotonic() + _ANSWER_SECONDS
        while wait:
            ready, _, _ = select.select([self._wire], [], [], max(0.0, end - time.monotonic()))
            answer = self._receive() if ready else None
            if answer is None:
                raise HostError(f"adbd of {self.state.name} did not answer", remedy=f"see the end of {self.state.log}")
            if answer.get("id") == self._last_id:
                if answer["error"]:
                    raise HostError(f"{self.state.name}: {answer['error']}")
                return

    def events(self) -> list[str]:
        """Return what adbd said by itself since the last call, without waiting."""
        while self._wire is not None and select.select([self._wire], [], [], 0)[0]:
            if self._receive() is None:
                break
        events, self._events = self._events, []
        return events

    def _receive(self) -> dict[str, Any] | None:
        """Take one packet; an event is put aside, an ended adbd is ``None``."""
        if self._wire is None:
            return None
        data = self._wire.recv(MAX_PACKET)
        if not data:
            self._wire.close()
            self._wire = None
            return None
        packet: dict[str, Any] = json.loads(data)
        if "event" in packet:
            self._events.append(str(packet["event"]))
        return packet

    @property
    def behaviour(self) -> Behaviour:
        """What the phone does by itself.

        Raises:
            HostError: the phone is off.
        """
        if self._behaviour is None:
            raise HostError(f"{self.state.name} is switched off", remedy="heal it first")
        return self._behaviour

    def init_pid(self) -> int:
        """Return the process id that the phone's process 1 has on this computer.

        Raises:
            HostError: the phone is off.
        """
        pid = next(iter(proctree.children(self.process.pid)), None) if self.process is not None else None
        if pid is None:
            raise HostError(f"{self.state.name} is switched off", remedy="heal it first")
        return pid

    def log_tail(self) -> str:
        """Return the last line of its log."""
        lines = self.state.log.read_bytes().splitlines()
        return lines[-1].decode("utf-8", "replace")[:300] if lines else ""


def _write_files(state: PhoneState, profile: Profile, host: Host, boot_reason: str) -> None:
    tree.remove_tree(state.run)
    props = tree.properties(profile, state.serial, tree.host_abi())
    props |= {"ro.boot.bootreason": boot_reason, "sys.boot.reason": boot_reason}
    tools = host.tools
    nodes = [
        *tree.with_denials(tree.sysfs(profile), profile.denied),
        *tree.userland(tools.toybox, tools.toybox_applets, tools.shell, tools.others),
        *tree.system_files(props, host.python.command, host.python.path),
        *map(tree.further_file, profile.files),
        tree.Node("/system/lib/adbd"),
        tree.Node("/system/lib/droid"),
        *(_log_command(name, host.python.command) for name in _LOG_COMMANDS),
        *(tree.Node(mount.place) for mount in host.python.mounts),
        tree.Node("/log"),
        tree.Node(f"/now/{mailbox.SPEC}", encode_spec(profile)),
        tree.Node("/asked"),
        tree.Node("/proc/meminfo", memory.meminfo(profile.memory).encode()),
        tree.Node("/proc/cpuinfo", tree.cpuinfo(profile).encode()),
        tree.Node("/proc/boot_id", f"{uuid.uuid4()}\n".encode()),
    ]
    if (cache := Path("/etc/ld.so.cache")).is_file():  # where this PC's libraries are
        nodes.append(tree.Node("/system/etc/ld.so.cache", cache.read_bytes()))
    tree.write_tree(nodes, state.run)


def compile_commands() -> None:
    """Compile what phones run inside, once: they may not write where it lies, and would compile it at every command.

    Where this program may not write either, they go on doing that.
    """
    for folder in (_ADBD, _DROID):
        compileall.compile_dir(folder, maxlevels=0, quiet=2)


def _log_command(name: str, python: str) -> tree.Node:
    start = f"import sys;sys.path.insert(0,'/system/lib');from adbd.{name} import run;run()"
    script = f'#!/system/bin/sh\nexec {python} -I -S -B -c "{start}" "$@"\n'
    return tree.Node(f"/system/bin/{name}", script.encode(), mode=0o555)


def _phone_mounts(state: PhoneState) -> Iterator[Mount]:
    for folder in ("sys", "system", "vendor"):
        yield bind(state.run / folder, f"/{folder}")
    yield bind(_ADBD, "/system/lib/adbd")
    yield bind(state.run / "proc" / "meminfo", "/proc/meminfo")
    yield bind(state.run / "proc" / "cpuinfo", "/proc/cpuinfo")
    yield bind(state.run / "proc" / "boot_id", "/proc/sys/kernel/random/boot_id")
    yield bind(_DROID, "/system/lib/droid")
    yield bind(mailbox.now_folder(state.run), "/mnt/vendor/now")
    yield bind(mailbox.asked_folder(state.run), "/mnt/asked", writable=True)
    yield bind(state.logs, "/dev/log", writable=True)
    yield bind(state.data, "/data", writable=True)
    yield bind(state.shared_storage, "/storage/emulated/0", writable=True)
    yield Mount("symlink", "/storage/emulated/0", "/sdcard")
    yield Mount("symlink", "/system/bin", "/bin")
    yield Mount("symlink", "/system/etc", "/etc")


def _plan(state: PhoneState, profile: Profile, host: Host, listen_fd: int, control_fd: int) -> Plan:
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
    argv = ["-s", "-S", "-B", "-m", "adbd", "--listen-fd", str(listen_fd), "--control-fd", str(control_fd)]
    argv += ["--banner", banner(profile)]
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
