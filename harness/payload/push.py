"""One push of a payload to a phone: goes on where an earlier one broke off, and proves on the way what arrived.

Two connections work together. Over adb's file transfer the bytes come as pieces, each a file of its own; over the other
the probe is told of them, puts them together and hashes them on the way (``probe receive``). When the last byte is
there the hash is there too.

Why so: adbd can neither write at an offset nor does it keep what had arrived of a file when the connection is cut. So

- the first piece of a file, which is all of it as a rule, is renamed by the probe while it arrives, and followed. adbd
  writes on through its descriptor; cut, it removes a name that is no longer there. Nothing is copied.
- what follows an earlier push or a run of zeros comes in pieces of some megabytes that are appended. That is a copy on
  the phone, but only then; and only the piece on its way is lost in a cut.

Why not one stream into the probe's stdin, which needs none of this: measured on virtual phones, it carries half as
much a second as adb's file transfer, which the phone takes in larger parts. And nothing is needed that a phone's
SELinux might refuse to a shell, such as links, named pipes or the files of another process.

Nothing is flushed at the end. What a power cut takes is found out by the hash that is computed anew after a restart
(see :data:`harness.payload.store.TRUST_S`).
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, ConfigError, ProbeError, TransferError, storage_reason
from harness.core.reasons import Reason
from harness.core.transport import Conversation, PushItem, Transport
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.pace import Pace, size_words
from harness.payload.probe_files import HashLine
from harness.payload.probe_receive import (
    Answer,
    Ended,
    Ready,
    Taken,
    order_done,
    order_drop,
    order_end,
    order_file,
    order_grow,
    order_piece,
    order_zeros,
    parse_answer,
)
from harness.payload.ranges import PIECE_BYTES, data_bytes, ranges
from harness.payload.resume import Beginning, Remaining, begin
from harness.payload.room import MARGIN_BYTES

# What has arrived and is not yet part of its file: lost when the connection is cut, so not much.
_MOST_WAITING_BYTES = 2 * PIECE_BYTES
_READ_BYTES = 1024 * 1024


@dataclass
class Push:
    """A push of ``payload`` into ``folder``, where it lies below ``payload`` when it is done.

    Attributes:
        program: the probe on the phone.
        folder: of this payload alone; what is in it from earlier is used.
        stamp: file for what is known of the files afterwards, see ``device_bins/probe/stamp.h``.
        label: name for people.
        make_room: is told how many bytes are to come and how many the phone has free, if it tells; removes what may go
            and returns how many bytes that were.
        say: told how it goes on.
        may_send: asked before the first byte is sent; where there is none to send it is not asked.
        sent_bytes: what was sent until now, however it ended.
        begun: the folder is ours; before that another push may be in it.
    """

    transport: Transport
    program: str
    payload: PayloadFolder
    folder: str
    stamp: str
    label: str
    make_room: Callable[[int, int | None], int]
    say: Callable[[str], None]
    may_send: Callable[[], bool] = lambda: True
    sent_bytes: int = 0
    begun: bool = False
    _there: dict[str, tuple[int, str]] = field(default_factory=dict)
    _script: deque[bytes | PushItem] = field(default_factory=deque)
    _waiting: deque[int] = field(default_factory=deque)
    _count: int = 0
    _ended: bool = False

    def run(self, deadline: Deadline) -> dict[str, tuple[int, str]] | None:
        """Push, and return size and SHA-256 of every file as it lies on the phone now.

        ``None``: there is something to send, which may not be sent now. The phone has what it had.

        Raises:
            TransferError: refused; reason ``no_space`` with figures when it is known before that it does not fit.
            ConfigError: a local file cannot be read any more.
            PhoneError: the phone or the connection failed; what arrived is there for the next push.
        """
        argv = [self.program, "receive", "--stamp", self.stamp, self.folder]
        with self.transport.converse(argv, deadline=deadline) as talk:
            found, ready = self._what_is_there(talk)
            beginning = begin(self.payload, found, _sha256_of_start(self.payload))
            if self._check_room(beginning, ready) and not self.may_send():
                self._end(talk)
                return None
            pace = Pace(self.label, self.payload.size, beginning.kept_bytes, self.say)
            for name in beginning.drop:
                talk.say(order_drop(name))

            def progress(count: int) -> None:
                self.sent_bytes += count
                pace.moved(count)
                self._hear(talk, wait=False)

            self.transport.push(
                self._pieces(talk, beginning, pace),
                deadline=deadline,
                progress=progress,
                arrived=lambda item: self._arrived(talk, item),
            )
            self._go_on(talk)
            self._end(talk)
        return self._there

    def _end(self, talk: Conversation) -> None:
        """Have the probe end in order, so that it is gone when the next comes."""
        self._ended = False
        talk.say(order_end())
        while not self._ended:
            self._hear(talk, wait=True)

    def _what_is_there(self, talk: Conversation) -> tuple[list[HashLine], Ready]:
        found: list[HashLine] = []
        while True:
            for answer in self._answers(talk, wait=True):
                if isinstance(answer, HashLine):
                    found.append(answer)
                elif isinstance(answer, Ready):
                    self.begun = True
                    return found, answer

    def _check_room(self, beginning: Beginning, ready: Ready) -> int:
        """Make room for what is to be sent, and return how many bytes that are.

        Raises:
            TransferError: there is not enough (reason ``no_space``).
        """
        wanted = sum(_data_bytes(self.payload, one) for one in beginning.files)
        freed = self.make_room(wanted, ready.free_bytes)
        if not wanted or ready.free_bytes is None or wanted + MARGIN_BYTES <= ready.free_bytes + freed:
            return wanted
        raise TransferError(
            self.transport.name,
            self.folder,
            f"{self.label} needs {size_words(wanted)} more and {size_words(MARGIN_BYTES)} to spare, but only "
            f"{size_words(ready.free_bytes + freed)} are free on the phone; make room there, or: mnn-farm clean",
            reason=Reason.NO_SPACE,
        )

    def _pieces(self, talk: Conversation, beginning: Beginning, pace: Pace) -> Iterator[PushItem]:
        """Yield what has to be sent, and write down what the probe is to be told in which order."""
        for one in beginning.files:
            file = one.file
            self._script.append(order_file(file.path, one.offset, executable=file.executable))
            with _reading(self.payload, file) as fd:
                for part in ranges(fd, one.offset, file.size):
                    if part.zeros:
                        self._script.append(order_zeros(part.length))
                        pace.moved(part.length)
                        continue
                    self._count += 1
                    remote = f"{self.folder}/pieces/{self._count}"
                    item = PushItem(self.payload.root / file.path, remote, 0o644, part.offset, part.length)
                    large = part.offset == 0 and part.length > PIECE_BYTES
                    if large:
                        self._script.append(order_grow(str(self._count), part.length))
                    else:
                        self._script.append(item)
                    self._go_on(talk)
                    while sum(self._waiting) > _MOST_WAITING_BYTES:
                        self._hear(talk, wait=True)
                    yield item
            self._script.append(order_done())

    def _arrived(self, talk: Conversation, item: PushItem) -> None:
        self._go_on(talk)  # what comes before it
        first = self._script[0] if self._script else None
        if not isinstance(first, PushItem) or first.remote != item.remote:  # it became the file while it arrived
            return
        self._script.popleft()
        length = item.length or 0
        self._waiting.append(length)
        talk.say(order_piece(item.remote.rpartition("/")[2], length))
        self._go_on(talk)

    def _go_on(self, talk: Conversation) -> None:
        """Tell the probe what needs no waiting for a piece."""
        orders = bytearray()
        while self._script and isinstance(order := self._script[0], bytes):
            orders += order
            self._script.popleft()
        if orders:
            talk.say(bytes(orders))

    def _hear(self, talk: Conversation, *, wait: bool) -> None:
        for answer in self._answers(talk, wait=wait):
            if isinstance(answer, HashLine):
                self._there[answer.path] = (answer.size or 0, answer.sha256 or "")
            elif isinstance(answer, Taken):
                self._waiting.popleft()
            elif isinstance(answer, Ended):
                self._ended = True

    def _answers(self, talk: Conversation, *, wait: bool) -> list[Answer]:
        """Return what the probe answered.

        Raises:
            TransferError: it could not go on.
            AdbFailedError: it ended, but not all that it said arrived.
        """
        try:
            answers = [parse_answer(line) for line in talk.hear(wait=wait)]
        except ValueError as error:
            raise ProbeError(self.transport.name, str(error)) from error
        result = talk.result
        if result is None or any(isinstance(answer, Ended) for answer in answers):
            return answers
        said = result.stderr.decode("utf-8", "replace").strip()
        if result.exit_code == 0:
            raise AdbFailedError(self.transport.name, f"pushing {self.label}: the probe's answer did not arrive whole")
        raise TransferError(
            self.transport.name,
            self.folder,
            said or f"the probe ended with {result.exit_code}",
            reason=storage_reason(said),
        )


@contextmanager
def _reading(payload: PayloadFolder, file: PayloadFile) -> Iterator[int]:
    """Open a local file.

    Raises:
        ConfigError: it cannot be read.
    """
    path = payload.root / file.path
    try:
        with path.open("rb") as opened:
            yield opened.fileno()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the file") from error


def _data_bytes(payload: PayloadFolder, one: Remaining) -> int:
    with _reading(payload, one.file) as fd:
        return data_bytes(fd, one.offset, one.file.size)


def _sha256_of_start(payload: PayloadFolder) -> Callable[[PayloadFile, int], str]:
    def sha256(file: PayloadFile, length: int) -> str:
        digest, at = hashlib.sha256(), 0
        with _reading(payload, file) as fd:
            while at < length and (chunk := os.pread(fd, min(_READ_BYTES, length - at), at)):
                digest.update(chunk)
                at += len(chunk)
        return digest.hexdigest()

    return sha256
