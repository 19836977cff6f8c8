"""How much a file may unpack to."""

from tracker.errors import TooLargeError

# TRACKER_MAX_BODY_BYTES where nobody sets it.
MOST_UNPACKED = 256 * 2**20


class Unpacked:
    """Counts the bytes that a file has unpacked to; whatever it says of itself."""

    def __init__(self, most: int = MOST_UNPACKED) -> None:
        self._most = most
        self._size = 0

    def add(self, size: int) -> None:
        """Count *size* more bytes; raises TooLargeError where these are too many."""
        self._size += size
        if self._size > self._most:
            raise TooLargeError.of(
                "file",
                f"unpacked it has more than {self._most:,} bytes, which "
                "TRACKER_MAX_BODY_BYTES sets",
            )
