"""What is kept of an output that may be longer than anybody wants: its begin and its end."""

from __future__ import annotations

from collections import deque

#: Stands where something was left out.
LEFT_OUT = b"\n[mnn-farm left out what stood here]\n"


class Kept:
    """Takes chunks and keeps about ``most`` bytes of them: a quarter from the begin, the rest from the end.

    What failed to load stands at a log's begin, what it died of at its end.
    """

    def __init__(self, most: int) -> None:
        self._of_begin, self._of_end = most // 4, most - most // 4
        self._begin = bytearray()
        self._end: deque[bytes] = deque()
        self._size = 0
        self._lost = False

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = self._of_begin - len(self._begin)
        self._begin += chunk[:room]
        if len(chunk) > room:
            self._end.append(chunk[room:])
            self._size += len(self._end[-1])
        while self._end and self._size - len(self._end[0]) >= self._of_end:
            self._size -= len(self._end.popleft())
            self._lost = True

    def whole(self) -> bytes:
        """Return what is kept; where something is missing stands :data:`LEFT_OUT`."""
        end = b"".join(self._end)
        if self._lost or len(end) > self._of_end:
            return bytes(self._begin) + LEFT_OUT + end[-self._of_end :]
        return bytes(self._begin) + end
