"""The job that runs imports in the background."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from tracker.services.imports.attempts import (
    REST_SECONDS,
    LostImportError,
    MissingFileError,
    begin_attempt,
    claim_of,
    done,
    end_import,
    gone,
    let_rest,
    rejected,
    take_images,
    take_import,
)
from tracker.services.imports.background import clear_arriving, delete_file
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.staging import (
    LARGE_BYTES,
    GivenUpError,
    Stage,
    clear,
    clear_ended,
)
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.images import ImageStore
from tracker.storage.imports.files import (
    Claim,
    Ending,
    Progress,
    give_back,
    has_arriving,
    has_free_import,
    list_left_over,
    renew_import,
)
from tracker.storage.imports.staging import has_staged

log = structlog.get_logger("tracker.job")

_NOTE_SECONDS = 1.0
_PAUSE_SECONDS = 1.0


class _StoppedError(Exception):
    """This worker is stopping; another one starts the import again."""


@dataclass(slots=True)
class _Course:
    """The progress of an attempt, shared between two threads."""

    progress: Progress = field(default_factory=Progress)
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Importer:
    """Carries out imports one after the other, the longest waiting first.

    Several workers share them out by leases; see storage/imports/files.py.  An attempt
    that was cut short by the end of this worker, or by a database that was away, does
    not count as one.
    """

    database: Database
    worker: str
    clock: Clock = utc_now
    # Where the images go that were sent beside a file.
    images: ImageStore | None = None
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def stop(self) -> None:
        """Give up the import under way, so that its worker can end soon."""
        self._stop.set()

    def run(self) -> int:
        """Take up every import that waits, and count them."""
        taken = 0
        self._clear()
        while not self._stop.is_set() and (claim := self._take()) is not None:
            taken += 1
            self._attempt(claim)
            self._clear_files()
        self._clear_files()
        return taken

    def _clear(self) -> None:
        """Delete what imports that have ended left in SQLite."""
        if not self.database.is_sqlite:
            return
        with self.database.read() as session:
            is_staged = has_staged(session)
            is_arriving = has_arriving(session)
        if is_staged:
            with self.database.staging() as writes:
                clear_ended(writes, at=self.clock())
        if is_arriving:
            clear_arriving(self.database.write, at=self.clock())

    def _clear_files(self) -> None:
        """Delete the files of imports that have ended."""
        with self.database.read() as session:
            left_over = list_left_over(session)
        for import_id in left_over:
            delete_file(self.database.write, import_id)

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

    def _carry_out(self, claim: Claim, course: _Course) -> Ending:
        def note(progress: Progress) -> None:
            course.progress = progress
            if course.is_lost:
                raise LostImportError
            if self._stop.is_set():
                raise _StoppedError

        carry_out = self._stage if self.database.is_sqlite else self._write_at_once
        try:
            choices = take_images(
                claim, self.database.read, self.images, on_progress=note
            )
            ending = carry_out(claim, choices, course, note)
            if course.progress.bytes >= LARGE_BYTES:
                self.database.settle()
            return ending
        except MissingFileError:
            ending = gone()
        except (InvalidInputError, ConflictError, NotFoundError) as error:
            ending = rejected(error)
        with self.database.write() as session:
            end_import(session, claim, ending, course.progress, at=self.clock())
        return ending

    def _write_at_once(
        self,
        claim: Claim,
        choices: Choices,
        course: _Course,
        note: Callable[[Progress], None],
    ) -> Ending:
        def work(session: Session) -> Ending:
            # Not in this transaction, which is at work while more of the file is read.
            reads = self.database.read
            attempt = begin_attempt(
                session, claim, reads, at=self.clock(), choices=choices
            )
            ending = done(attempt.carry_out(session, note))
            end_import(session, claim, ending, course.progress, at=self.clock())
            return ending

        return self.database.run(work)

    def _stage(
        self,
        claim: Claim,
        choices: Choices,
        course: _Course,
        note: Callable[[Progress], None],
    ) -> Ending:
        """Write in pieces that let others in between, and show all at the end."""
        with self.database.read() as session:
            attempt = begin_attempt(
                session, claim, self.database.read, at=self.clock(), choices=choices
            )
        with self.database.staging() as writes:
            clear_ended(writes, at=self.clock(), import_id=claim.import_id)
            stage = Stage(self.clock, claim.import_id)
            try:
                staged = attempt.stage(writes, stage, note)
                with self.database.write() as session:
                    ending = done(staged.show(session))
                    end_import(session, claim, ending, course.progress, at=self.clock())
            except _StoppedError:
                # The next attempt clears it, and this worker is to end soon.
                raise
            except GivenUpError as error:
                raise LostImportError from error
            except Exception:
                clear(writes, stage.owner_id)
                raise
        return ending

    @contextmanager
    def _noting(self, claim: Claim, course: _Course) -> Iterator[None]:
        """Hold the import and let all see how far it is, until the block ends."""
        has_ended = threading.Event()

        def note() -> None:
            while True:
                with suppress(UnavailableError), self.database.write() as session:
                    course.is_lost |= not renew_import(
                        session, claim, course.progress, at=self.clock()
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

        Waits while the database is away, so that the attempt is not counted.
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
