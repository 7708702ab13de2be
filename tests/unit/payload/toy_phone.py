"""A phone that is a dictionary, path to bytes: transport and probe at once, with a probe that receives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from harness.core.deadline import Deadline
from harness.core.transport import PushItem, ShellResult

BASE = "/data/local/tmp/mnn-farm"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class ToyTalk:
    """``probe receive`` as far as a push can tell; orders that need a piece wait for it."""

    def __init__(self, phone: ToyPhone, folder: str) -> None:
        self.phone, self.folder = phone, folder
        self.result: ShellResult | None = None
        self._orders: list[list[str]] = []
        self._path, self._exec = "", False
        if "lock" in phone.refuse:
            self.result = ShellResult(1, b"", f"probe: {phone.refuse['lock']}".encode())
            return
        for path, data in phone.tree(f"{folder}/payload").items():
            self._tell(f'"path":"{path}","size":{len(data)},"sha256":"{sha256(data)}"')
        self._tell(f'"ready":true,"free_bytes":{phone.free_bytes}')

    def _tell(self, text: str) -> None:
        self.phone.answers.append(b"{" + text.encode() + b"}")

    def hear(self, *, wait: bool) -> list[bytes]:
        assert self.phone.answers or not wait or self.result, "a push waits for what never comes"
        told, self.phone.answers = self.phone.answers, []
        return told

    def say(self, data: bytes) -> None:
        assert data.endswith(b"\0")
        orders = data[:-1].decode().split("\0")
        self.phone.orders += orders
        self._orders += [order.split(" ") for order in orders]
        self.go_on()

    def go_on(self) -> None:
        while self._orders and self._obey(*self._orders[0]):
            self._orders.pop(0)

    def _obey(self, order: str, *words: str) -> bool:
        files, target = self.phone.files, f"{self.folder}/payload/{self._path}"
        if order in self.phone.refuse:
            self.result = ShellResult(1, b"", f"probe: {self.phone.refuse[order]}".encode())
        elif order == "file":
            self._path, self._exec = words[2], words[0] == "755"
            target = f"{self.folder}/payload/{self._path}"
            files[target] = files.get(target, b"")[: int(words[1])]
            assert len(files[target]) == int(words[1])
        elif order in ("piece", "grow"):
            piece = files.pop(f"{self.folder}/pieces/{words[0]}", None)
            if piece is None:
                assert order == "grow", "a piece was to be taken that had not arrived"
                return False
            assert len(piece) == int(words[1])
            files[target] += piece
            if order == "piece":
                self._tell(f'"taken":"{words[0]}"')
        elif order == "zeros":
            files[target] += bytes(int(words[0]))
        elif order == "done":
            self.phone.modes[target] = 0o755 if self._exec else 0o644
            self._tell(f'"path":"{self._path}","size":{len(files[target])},"sha256":"{sha256(files[target])}"')
        elif order == "drop":
            del files[f"{self.folder}/payload/{words[0]}"]
        else:
            assert order == "end"
            self._tell('"end":true')
            self.result = ShellResult(0, b"", b"")
        return True


class ToyPhone:
    """Attributes that a test may set: ``spoil`` changes what arrives, ``fail`` makes a step raise, ``refuse`` makes the
    probe end at an order with that sentence.
    """

    name, base_dir, serial, server, path = "toy-1", BASE, "S", None, "/probe"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.sent: list[PushItem] = []
        self.sessions = 0
        self.spoil: Callable[[PushItem, bytes], bytes] = lambda _, data: data
        self.fail: dict[str, Exception] = {}
        self.refuse: dict[str, str] = {}
        self.commands: list[str] = []
        self.orders: list[str] = []
        self.answers: list[bytes] = []
        self.trusted: list[tuple[str | None, int]] = []
        self.time = 1000
        self.used: dict[str, int] = {}
        self.free_bytes = 10**12
        self._talk: ToyTalk | None = None

    @property
    def sent_bytes(self) -> int:
        return sum(item.length or 0 for item in self.sent)

    def tree(self, folder: str) -> dict[str, bytes]:
        return {p.removeprefix(folder + "/"): d for p, d in sorted(self.files.items()) if p.startswith(folder + "/")}

    def below(self, folder: str) -> set[str]:
        return set(self.tree(f"{BASE}/{folder}"))

    @contextmanager
    def converse(self, argv: Sequence[str], *, deadline: Deadline) -> Iterator[ToyTalk]:
        assert deadline.phone == "toy-1"
        assert list(argv[:3]) == ["/probe", "receive", "--stamp"]
        if "converse" in self.fail:
            raise self.fail["converse"]
        self.sessions += 1
        self.answers = []
        self._talk = ToyTalk(self, argv[4])
        yield self._talk
        self._talk = None

    def push(
        self,
        items: Iterable[PushItem],
        *,
        deadline: Deadline,
        progress: Callable[[int], None],
        arrived: Callable[[PushItem], None],
    ) -> None:
        assert self._talk is not None
        for number, item in enumerate(items):
            if number == 1 and "push" in self.fail:
                raise self.fail["push"]
            assert item.length is not None
            data = item.local.read_bytes()[item.offset : item.offset + item.length]
            assert len(data) == item.length
            self.sent.append(item)
            progress(len(data))
            self.files[item.remote] = self.spoil(item, data)
            self._talk.go_on()
            arrived(item)

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        self.commands.append(argv[0])
        if argv[0] in self.fail:
            raise self.fail[argv[0]]
        if argv[0] == "rm":
            for folder in argv[2:]:
                self.remove(folder)
        elif argv[0] == "touch":
            self.used[argv[1].removeprefix(BASE + "/")] = self.time = self.time + 1
        elif "now=" in argv[2]:
            return ShellResult(0, self.listing().encode(), b"")
        elif "mv" in self.fail:
            return ShellResult(1, b"", b"mv: Read-only file system")
        else:
            final, _, incoming = argv[4:]
            to_final = 'mv "$3/payload" "$1"' in argv[2]
            self.move(f"{incoming}/payload", final) if to_final else self.move(final, f"{incoming}/payload")
        return ShellResult(0, b"", b"")

    def move(self, old: str, new: str) -> None:
        self.remove(new)
        for name in self.tree(old):
            self.files[f"{new}/{name}"] = self.files.pop(f"{old}/{name}")
            if f"{old}/{name}" in self.modes:
                self.modes[f"{new}/{name}"] = self.modes.pop(f"{old}/{name}")

    def remove(self, folder: str) -> None:
        assert folder.startswith(BASE + "/")
        self.files = {path: data for path, data in self.files.items() if not path.startswith(folder + "/")}

    def listing(self) -> str:
        """Each payload with the time of its use and its size in KiB."""
        folders = {path.removeprefix(BASE + "/").rpartition("/")[0] for path in self.files}
        whole = sorted({"/".join(folder.split("/")[:2]) for folder in folders})
        lines = [f"used={self.used.get(folder, 0)} {folder}" for folder in whole]
        lines += [f"{sum(map(len, self.tree(f'{BASE}/{folder}').values())) // 1024}\t{folder}" for folder in whole]
        return "\n".join([f"now={self.time}", *lines, ""])

    def hash_tree(self, folder: str, seconds: float, *, stamp: str, trust_s: int) -> dict[str, tuple[int, str]]:
        assert seconds > 0
        assert stamp == f"{folder}.stamp"
        self.trusted.append((stamp.rpartition("/")[2], trust_s))
        return {path: (len(data), sha256(data)) for path, data in self.tree(folder).items()}
