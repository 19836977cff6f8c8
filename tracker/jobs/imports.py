"""The tasks that run imports in the background and delete their files."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from tracker import errors
from tracker.jobs.loop import Handler, Watch
from tracker.services.imports import background
from tracker.services.imports.writing import LARGE_BYTES, Written, most_rows
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.telling.events import tell_failed_import
from tracker.storage import imports as storage
from tracker.storage.base import dump_id
from tracker.storage.images import ImageStore
from tracker.storage.imports import Progress
from tracker.storage.tasks import CLEARING, IMPORT, Task, hold

log = structlog.get_logger("tracker.job")

_NOTE_SECONDS = 1.0


@dataclass(slots=True)
class _Course:
    """An attempt at an import, and its progress."""

    task: Task
    watch: Watch
    progress: Progress = field(default_factory=dict)
    noted: float = 0.0


@dataclass(slots=True, kw_only=True, eq=False)
class Imports(Handler):
    """Runs imports one after the other, the longest waiting first."""

    images: ImageStore | None = None
    # The most bytes that a file may unpack to.
    most_unpacked: int = MOST_UNPACKED
    kind = IMPORT

    def give_up(self, session: Session, task: Task, error: str, at: datetime) -> None:
        background.fail_import(session, task, error, at)
        tell_failed_import(session, task.row, at)

    def let_go(self, session: Session, task: Task) -> None:
        storage.change_import(session, task.row, state=storage.WAITING)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Run one import, or store why it is refused."""
        [task] = tasks
        course, begun = _Course(task, watch), time.perf_counter()
        with self.database.write() as session:
            hold(session, task, locks=False)
            storage.start_import(session, course.task.row, at=self.clock())
        state = self._carry_out(course)
        log.info(
            "imported",
            file_import=dump_id("imp", course.task.row[1]),
            state=state,
            seconds=round(time.perf_counter() - begun, 4),
        )
        return 1

    def _carry_out(self, course: _Course) -> str:
        """Check the file, then write the rows that earlier attempts have not."""

        def note(progress: Progress) -> None:
            self._note(course, progress)

        def note_piece(session: Session, written: Written) -> None:
            background.note_written(session, course.task, written)

        def finish(session: Session) -> str:
            return background.finish_import(
                session, course.task, second, course.progress, at=self.clock()
            )

        try:
            with background.attempting(
                course.task,
                self.database.read,
                self.images,
                clock=self.clock,
                on_progress=note,
                most_unpacked=self.most_unpacked,
            ) as second:
                most = most_rows(self.database)
                for _ in second.write(self.database.run_piece, note_piece, most=most):
                    note(course.progress)
                state = self.database.run(finish)
            read = course.progress["bytes_read"]
            self.database.settle(is_large=read >= LARGE_BYTES)
            return state
        except (
            background.MissingFileError,
            errors.InvalidInputError,
            errors.ConflictError,
            errors.NotFoundError,
        ) as error:
            with self.database.write() as session:
                at = self.clock()
                state = background.refuse_import(
                    session, course.task, error, course.progress, at=at
                )
                tell_failed_import(session, course.task.row, at)
                return state

    def _note(self, course: _Course, progress: Progress) -> None:
        """Store the progress once a second, in a transaction of its own."""
        course.watch.check()
        course.progress = progress
        if time.monotonic() < course.noted + _NOTE_SECONDS:
            return
        course.noted = time.monotonic()
        with suppress(errors.UnavailableError), self.database.write() as session:
            hold(session, course.task, locks=False)
            storage.change_import(session, course.task.row, **progress)


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

        if not background.clear_arriving(self.database.write, task.row):
            background.delete_file(write, task.row)
            self.finish(task)
        return 0
