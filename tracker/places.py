"""Places for what takes long: a few at once in this process, fewer for one account."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from flask import current_app

from tracker.errors import TooManyError
from tracker.http import account


class Places:
    """Bounds how many there are at once in this process, and of one account."""

    def __init__(self, what: str, *, most: int, most_of_one: int) -> None:
        """Bound what is called *what*, in the plural."""
        self._what, self._most, self._most_of_one = what, most, most_of_one
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, name: str) -> Iterator[None]:
        """Hold a place of the account *name*; raises TooManyError."""
        with self._lock:
            if self._taken[name] >= self._most_of_one:
                raise TooManyError(
                    f"you have as many {self._what} in progress as you may, which is "
                    f"{self._most_of_one}; try again when one ends"
                )
            if self._taken.total() >= self._most:
                raise TooManyError(
                    f"{self._most} {self._what} are in progress; try again"
                )
            self._taken[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[name] -= 1
                # Names that are not in use take no room.
                self._taken += Counter()


@contextmanager
def place_for_sums() -> Iterator[None]:
    """Hold a place for sums over all outcomes, or raise TooManyError.

    They keep a processor busy for a second or two, which a few may do, and the others
    would wait for in a queue that nobody sees.
    """
    places = current_app.extensions.setdefault(
        "tracker-sums", Places("sums over all outcomes", most=2, most_of_one=1)
    )
    with places.take(account().name):
        yield
