"""The tasks that run imports in the background and delete their files."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from tracker.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from tracker.jobs.loop import Handler, Watch
from tracker.services.imports import attempts
from tracker.services.imports.attempts import Attempt, MissingFileError
from tracker.services.imports.background import clear_arriving, delete_file
from tracker.services.imports.writing import LARGE_BYTES, Written
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.telling.events import tell_failed_import
from tracker.storage.base import Key, dump_id
from tracker.storage.images import ImageStore
from tracker.storage.imports import files
from tracker.storage.tasks import CLEARING, IMPORT, Task, check_held, hold

log = structlog.get_logger("tracker.job")

_NOTE_SECONDS = 1.0


@dataclass(slots=True)
class _Course:
    """An attempt at an import, and its progress."""

    task: Task
    watch: Watch
    progress: files.Progress = field(default_factory=files.Progress)
    noted: float = 0.0

    @property
    def key(self) -> Key:
        return self.task.row


@dataclass(slots=True, kw_only=True, eq=False)
class Imports(Handler):
    """Runs imports one after the other, the longest waiting first."""

    images: ImageStore | None = None
    # The most bytes that a file may unpack to.
    most_unpacked: int = MOST_UNPACKED
    kind = IMPORT

    def give_up(self, session: Session, task: Task, error: str, at: datetime) -> None:
        attempts.fail_import(session, task, error, at)
        tell_failed_import(session, task.row, at)

    def let_go(self, session: Session, task: Task) -> None:
        files.change_import(session, task.row, state=files.WAITING)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Run one import, or store why it is refused."""
        [task] = tasks
        course, begun = _Course(task, watch), time.perf_counter()
        with self.database.write() as session:
            check_held(session, task)
            files.start_import(session, course.key, at=self.clock())
        ending = self._carry_out(course)
        log.info(
            "imported",
            file_import=dump_id("imp", course.key[1]),
            state=ending.state,
            seconds=round(time.perf_counter() - begun, 4),
        )
        return 1

    def _carry_out(self, course: _Course) -> files.Ending:
        def note(progress: files.Progress) -> None:
            self._note(course, progress)

        reads = self.database.read
        try:
            choices = attempts.take_images(
                course.key,
                reads,
                self.images,
                on_progress=note,
                most_unpacked=self.most_unpacked,
            )
            with reads() as session:
                attempt = attempts.begin_attempt(
                    session,
                    course.task,
                    reads,
                    at=self.clock(),
                    choices=choices,
                    most_unpacked=self.most_unpacked,
                )
            ending = self._write(course, attempt, note)
            read = course.progress.bytes_read
            self.database.settle(is_large=read >= LARGE_BYTES)
            return ending
        except MissingFileError:
            with self.database.write() as session:
                at = self.clock()
                attempts.end_import(
                    session, course.task, attempts.gone(), course.progress, at=at
                )
                tell_failed_import(session, course.key, at)
            return attempts.gone()
        except (InvalidInputError, ConflictError, NotFoundError) as error:
            with self.database.write() as session:
                at = self.clock()
                ending = attempts.refuse_import(
                    session, course.task, error, course.progress, at=at
                )
                tell_failed_import(session, course.key, at)
                return ending

    def _write(
        self, course: _Course, attempt: Attempt, note: Callable[[files.Progress], None]
    ) -> files.Ending:
        """Check the file, then write the rows that earlier attempts have not."""

        def note_piece(session: Session, written: Written) -> None:
            attempts.note_written(session, course.task, written)

        def finish(session: Session) -> files.Ending:
            return attempts.finish_import(
                session, course.task, second, course.progress, at=self.clock()
            )

        with attempt.checked(note) as second:
            for _ in second.write(self.database.run_piece, note_piece):
                note(course.progress)
            return self.database.run(finish)

    def _note(self, course: _Course, progress: files.Progress) -> None:
        """Store the progress once a second, in a transaction of its own."""
        course.watch.check()
        course.progress = progress
        if time.monotonic() < course.noted + _NOTE_SECONDS:
            return
        course.noted = time.monotonic()
        with suppress(UnavailableError), self.database.write() as session:
            check_held(session, course.task)
            files.note_progress(session, course.key, progress)


class Clearing(Handler):
    """Deletes the files of ended imports; the key of a task is the import."""

    kind = CLEARING

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Delete the file of an import in pieces, so that other writers get turns."""
        [task] = tasks

        @contextmanager
        def write() -> Iterator[Session]:
            with self.database.write() as session:
                # An import that is resumed takes the task away.
                hold(session, task)
                yield session

        if not clear_arriving(self.database.write, task.row):
            delete_file(write, task.row)
            self.finish(task)
        return 0
