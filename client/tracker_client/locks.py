"""Locks on files, which end with the process that holds them."""

from __future__ import annotations

import sys

if sys.platform == "win32":  # pragma: no cover - the tests run elsewhere.
    import msvcrt

    def lock(handle: int, *, shared: bool = False) -> bool:
        """Take the lock unless another has it; there are no shared ones here."""
        if shared:
            return True
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock(handle: int, *, shared: bool = False) -> bool:
        """Take the lock, with others if it is *shared*; False if it is held."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
