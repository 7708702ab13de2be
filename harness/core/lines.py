"""Lines out of chunks of bytes: a phone's output comes as it likes."""

from __future__ import annotations

# A line that never ends must not fill this computer's memory.
LONGEST_LINE_BYTES = 4 * 1024 * 1024


class LineBuffer:
    """Collects chunks and gives whole lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def rest(self) -> bytes:
        """What came after the last end of a line."""
        return bytes(self._rest)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the lines that it completes, without their ends.

        Raises:
            ValueError: a line is longer than :data:`LONGEST_LINE_BYTES`.
        """
        self._rest += chunk
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest[:] = rest
        if len(rest) > LONGEST_LINE_BYTES:
            raise ValueError(f"a line has no end within {LONGEST_LINE_BYTES} bytes")
        return lines
