"""Where a virtual phone lives between runs, and the lock that makes its name unique among running ones."""

from __future__ import annotations

import fcntl
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import HostError
from harness.core.resources import cache_dir

MAX_INSTANCES = 256


class FolderLock:
    """A kernel lock on a folder itself: no file is left of it when the folder goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1

    def acquire(self) -> bool:
        """Take it without waiting; return whether that worked. The folder is made if it is not there.

        Raises:
            OSError: the folder cannot be made or opened.
        """
        while True:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), self._folder.stat()):
                    self._fd = fd
                    return True
            except BlockingIOError:
                os.close(fd)
                return False
            except FileNotFoundError:
                pass
            # Its last holder removed the folder between the two: what is locked is a folder without a name.
            os.close(fd)

    def release(self) -> None:
        """Give it back; harmless twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True)
class PhoneState:
    """A claimed phone: its name, its folder, and the kernel lock that claims it."""

    name: str
    folder: Path
    lock: FolderLock
    data_name: str = "data"

    @property
    def data(self) -> Path:
        """What the phone sees as ``/data``. It persists."""
        return self.folder / self.data_name

    @property
    def shared_storage(self) -> Path:
        """What the phone sees as ``/sdcard``; as on a phone, it lies within ``/data``."""
        return self.data / "media" / "0"

    @property
    def run(self) -> Path:
        """What is made anew at each start and removed at the end."""
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        """The phone's own log (:mod:`harness.virtual.logbuffer`), which the phone sees as ``/dev/log``."""
        return self.run / "log"

    @property
    def log(self) -> Path:
        """What adbd and the sandbox said since the last start."""
        return self.folder / "log.txt"

    @property
    def serial(self) -> str:
        """The phone's ``ro.serialno``: always the same for the same name."""
        return hashlib.sha256(f"virtual phone {self.name}".encode()).hexdigest()[:12].upper()

    @property
    def control(self) -> Path:
        """The socket on which the supervisor takes orders about this phone, while it runs."""
        return self.folder / "control"

    @property
    def other(self) -> PhoneState:
        """Another phone of the same name and serial: what the fault ``replaced`` puts in this one's place."""
        return replace(self, data_name="data-other")

    def prepare(self) -> None:
        """Make the folders that persist. Files inside are for all to write, as on a phone, so others are kept out."""
        self.folder.chmod(0o700)
        tmp = self.data / "local" / "tmp"
        for folder in (self.data, tmp.parent, tmp, self.shared_storage):
            folder.mkdir(parents=True, exist_ok=True)
        tmp.chmod(0o771)

    def release(self) -> None:
        """Let others have the name."""
        self.lock.release()


def claim(profile: str) -> PhoneState:
    """Claim the first phone of this profile that nobody runs: ``virtual-PROFILE-1``, ``-2``, …

    Raises:
        HostError: all are taken, or the cache cannot be written.
    """
    for instance in range(1, MAX_INSTANCES + 1):
        name = f"virtual-{profile}-{instance}"
        try:
            folder = cache_dir("virtual") / name
            lock = FolderLock(folder)
            if not lock.acquire():
                continue
        except OSError as error:
            raise HostError(
                f"{error.filename or 'the cache'} cannot be written ({error.strerror})",
                remedy="set MNN_FARM_CACHE to a folder of yours",
            ) from error
        return PhoneState(name, folder, lock)
    raise HostError(f"all {MAX_INSTANCES} phones of profile {profile!r} are in use", remedy="stop some of them")
