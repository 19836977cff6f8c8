"""The job that carries out the imports which were left to a worker."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import structlog
from sqlalchemy.orm import Session

from tracker.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from tracker.jobs.recompute import Clock, utc_now
from tracker.services.import_attempts import (
    REST_SECONDS,
    LostImportError,
    MissingFileError,
    carry_out,
    claim_of,
    done,
    end_import,
    gone,
    let_rest,
    rejected,
    take_import,
)
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.import_progress import forget_progress, note_progress
from tracker.storage.imports import (
    Claim,
    Ending,
    Progress,
    give_back,
    has_free_import,
)

log = structlog.get_logger("tracker.job")

_NOTE_SECONDS = 1.0
_PAUSE_SECONDS = 1.0


class _StoppedError(Exception):
    """This worker is to end; the import is begun anew by another."""


@dataclass(slots=True)
class _Course:
    """How far an attempt is, told from one thread to the other."""

    progress: Progress = field(default_factory=Progress)
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Importer:
    """Carries out imports one after the other, the longest waiting first.

    Several workers share them out by leases; see storage/imports.py.  An attempt that
    was cut short by the end of this worker, or by a database that was away, does not
    count as one.
    """

    database: Database
    worker: str
    clock: Clock = utc_now
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def stop(self) -> None:
        """Give up the import under way, so that its worker can end soon."""
        self._stop.set()

    def run(self) -> int:
        """Take up every import that waits, and count them."""
        taken = 0
        while not self._stop.is_set() and (claim := self._take()) is not None:
            taken += 1
            self._attempt(claim)
        return taken

    def _take(self) -> Claim | None:
        # SQLite has one writer at a time, who is not disturbed to find nothing.
        with self.database.read() as session:
            if not has_free_import(session, at=self.clock()):
                return None
        with self.database.write() as session:
            found = take_import(session, self.worker, at=self.clock())
            return None if found is None else claim_of(found)

    def _attempt(self, claim: Claim) -> None:
        course, begun = _Course(), time.perf_counter()
        name = dump_id("imp", claim.import_id)
        try:
            with self._noting(claim, course):
                ending = self._carry_out(claim, course)
        except LostImportError:
            log.info("left to another worker", file_import=name)
        except _StoppedError:
            self._give_back(claim, rest_seconds=0.0)
        except UnavailableError:
            # It may be a full disk, which the import itself fills each time.
            self._give_back(claim, rest_seconds=REST_SECONDS)
            raise
        except Exception as error:
            # The other imports go on.
            with suppress(LostImportError), self.database.write() as session:
                let_rest(session, claim, error, course.progress, at=self.clock())
            log.error("import failed", file_import=name, exc_info=error)
        else:
            log.info(
                "imported",
                file_import=name,
                state=ending.state,
                seconds=round(time.perf_counter() - begun, 4),
            )
        finally:
            forget_progress(self.database, claim.import_id)

    def _carry_out(self, claim: Claim, course: _Course) -> Ending:
        def note(progress: Progress) -> None:
            course.progress = progress
            if course.is_lost:
                raise LostImportError
            if self._stop.is_set():
                raise _StoppedError

        def work(session: Session) -> Ending:
            report = carry_out(
                session, claim, created_at=self.clock(), on_progress=note
            )
            ending = done(report)
            end_import(session, claim, ending, course.progress, at=self.clock())
            return ending

        try:
            return self.database.run(work)
        except MissingFileError:
            ending = gone()
        except (InvalidInputError, ConflictError, NotFoundError) as error:
            ending = rejected(error)
        with self.database.write() as session:
            end_import(session, claim, ending, course.progress, at=self.clock())
        return ending

    @contextmanager
    def _noting(self, claim: Claim, course: _Course) -> Iterator[None]:
        """Hold the import and let all see how far it is, until the block ends."""
        has_ended = threading.Event()

        def note() -> None:
            while True:
                with suppress(UnavailableError):
                    course.is_lost |= not note_progress(
                        self.database, claim, course.progress, at=self.clock()
                    )
                if has_ended.wait(_NOTE_SECONDS):
                    return

        thread = threading.Thread(target=note, daemon=True, name="note-progress")
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()

    def _give_back(self, claim: Claim, *, rest_seconds: float) -> None:
        """Let any worker take the import up, after a rest, and count no attempt.

        Where the database is away it waits for it, lest the attempt be counted.
        """
        while True:
            with suppress(UnavailableError), self.database.write() as session:
                give_back(
                    session,
                    claim,
                    at=self.clock(),
                    rest_seconds=rest_seconds,
                    counts=False,
                )
                return
            if self._stop.wait(_PAUSE_SECONDS):
                return
