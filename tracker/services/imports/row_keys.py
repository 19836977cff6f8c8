"""Keys for rows without one, made of the file's hash and the number of the row.

A file that grows is one file: if it begins like an earlier one, row by row, it uses
the keys of that file.
"""

import re
from array import array
from dataclasses import dataclass, field
from itertools import islice
from zlib import crc32

from sqlalchemy.orm import Session

from tracker.services.imports.checking import Columns
from tracker.services.imports.reading.choices import NEW_ROWS, SAME_ROWS
from tracker.services.imports.reading.rows import FIELDS, IMAGE, wrong_file
from tracker.storage.imports import Hashes, find_prefix, iter_newest

_KEY = re.compile(r"import-[0-9a-f]{16}-([0-9]+)")
_SAID = tuple(name for name in (*FIELDS, IMAGE) if name != "key")
# The share of rows, one in so many, that a corrected file differs in.
_CORRECTED = 10


def key_prefix(digest: str) -> str:
    """Return how the keys begin for the file of *digest*; the row's number follows."""
    return f"import-{digest[:16]}-"


def row_number(key: str) -> int | None:
    """Return which row of its file *key* was made up for, None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else int(found[1])


def keys_of(good: Columns, prefix: str) -> list[str]:
    """Return the key of each row; one without has its number behind *prefix*."""
    numbered = zip(good.numbers, good.get("key"), strict=True)
    return [key or f"{prefix}{number}" for number, key in numbered]


@dataclass(slots=True)
class Keyless:
    """The rows of a file that have no key: how theirs begin, and what they say."""

    prefix: str
    hashes: Hashes = field(default_factory=lambda: array("I"))

    def add(self, good: Columns) -> None:
        """Note what each query without a key says."""
        keys = good.get("key")
        if "predicted" not in good.values or None not in keys:
            return
        lines = zip(*map(good.get, _SAID), strict=True)
        for number, key, given, line in zip(
            good.numbers, keys, good.get("predicted"), lines, strict=True
        ):
            if key is None and given is not None:
                self.hashes.extend([0] * (number - 1 - len(self.hashes)))
                self.hashes.append(crc32(repr(line).encode()) or 1)

    def forget(self, number: int) -> None:
        if number <= len(self.hashes):
            self.hashes[number - 1] = 0


@dataclass(frozen=True, slots=True)
class Earlier:
    """A file that was imported before, with which a file goes on."""

    prefix: str
    _hashes: Hashes
    _own: Hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def has(self, number: int) -> bool:
        """Return whether it has the row of that *number* as it is."""
        return (
            number <= min(len(self._hashes), len(self._own))
            and self._own[number - 1] != 0
            and self._own[number - 1] == self._hashes[number - 1]
        )

    def complete(self) -> None:
        """Add its further rows to the hashes of the file that continues it."""
        own, hashes = self._own, self._hashes
        for place, (then, now) in enumerate(zip(hashes, own, strict=False)):
            own[place] = now or then
        own.extend(hashes[len(own) :])


def find_earlier(
    session: Session, detector_id: int, digest: str, own: Keyless, rows: str | None
) -> Earlier | None:
    """Return the file that the rows of *own* go on with; None for new rows.

    That is one whose rows all stand at the beginning, or with *rows* ``same`` the one
    in which the fewest differ.  Raises InvalidInputError where up to a tenth of them
    differ and *rows* do not say what they are.
    """
    mine = find_prefix(session, detector_id, digest[:16])
    best: tuple[int, Earlier] | None = None
    for prefix, hashes in iter_newest(session, detector_id):
        found = Earlier(prefix, hashes, own.hashes)
        if rows == NEW_ROWS:
            if prefix == key_prefix(digest):
                # The same file, whose rows were new when it was sent before.
                return found
            continue
        wrong = _count_differing(hashes, own.hashes, is_part=prefix == mine)
        is_near = rows == SAME_ROWS or wrong <= max(1, len(hashes) // _CORRECTED)
        is_alike = wrong < len(hashes) - hashes.count(0)
        if (
            is_near
            and is_alike
            and (best is None or (wrong, -len(found)) < (best[0], -len(best[1])))
        ):
            best = wrong, found
    if best is None and rows == SAME_ROWS:
        raise wrong_file("no earlier file has any of its rows")
    if best is None:
        return None
    wrong, earlier = best
    if wrong and rows is None:
        raise wrong_file(
            f"{wrong:,} of the {len(earlier):,} rows of an earlier file without keys "
            "differ; add --same-rows if they are corrected here, or --new-rows if all "
            "rows are others"
        )
    return earlier


def _count_differing(hashes: Hashes, own: Hashes, *, is_part: bool) -> int:
    """Count the rows of an earlier file that are other ones, or missing."""
    if own[: len(hashes)] == hashes:
        return 0
    pairs = zip(hashes, own, strict=False)
    # What was wrong in the earlier file was not written.
    differing = sum(1 for then, now in pairs if then and then != now)
    missing = islice(hashes, len(own), None)
    return differing if is_part else differing + sum(map(bool, missing))
