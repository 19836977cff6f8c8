"""The jobs that run imports in the background, and clear up after them."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tracker.jobs.loop import Handler, StoppedError, Watch
from tracker.services.imports.attempts import (
    Attempt,
    MissingFileError,
    begin_attempt,
    done,
    end_import,
    fail_import,
    gone,
    rejected,
    take_images,
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
from tracker.services.sandbox.limits import MOST_UNPACKED
from tracker.storage.base import dump_id
from tracker.storage.images import ImageStore
from tracker.storage.imports.files import (
    Ending,
    Progress,
    let_wait,
    note_progress,
    start_import,
)
from tracker.storage.imports.staging import has_left_over
from tracker.storage.tasks import (
    CLEARING,
    IMPORT,
    LostTaskError,
    Task,
    check_held,
    enqueue,
    find_task,
)

log = structlog.get_logger("tracker.job")

_NOTE_SECONDS = 1.0


@dataclass(slots=True)
class _Course:
    """An attempt, and how far it is."""

    task: Task
    watch: Watch
    progress: Progress = field(default_factory=Progress)
    noted: float = 0.0

    @property
    def import_id(self) -> int:
        return int(self.task.key)


@dataclass(slots=True, kw_only=True, eq=False)
class Imports(Handler):
    """Carries out imports one after the other, the longest waiting first."""

    images: ImageStore | None = None
    # How many bytes a file may unpack to.
    most_unpacked: int = MOST_UNPACKED
    kind = IMPORT

    def give_up(self, session: Session, task: Task, error: str, at: datetime) -> None:
        """End the import."""
        fail_import(session, task, error, at)

    def let_go(self, session: Session, task: Task) -> None:
        """Say that the import waits."""
        let_wait(session, int(task.key))

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Carry out one import, or say why it cannot be."""
        [task] = tasks
        course, begun = _Course(task, watch), time.perf_counter()
        with self.database.write() as session:
            check_held(session, task)
            start_import(session, course.import_id, at=self.clock())
        ending = self._carry_out(course)
        log.info(
            "imported",
            file_import=dump_id("imp", course.import_id),
            state=ending.state,
            seconds=round(time.perf_counter() - begun, 4),
        )
        return 1

    def _carry_out(self, course: _Course) -> Ending:
        def note(progress: Progress) -> None:
            self._note(course, progress)

        carry_out = self._stage if self.database.is_sqlite else self._write_at_once
        try:
            choices = take_images(
                course.import_id,
                self.database.read,
                self.images,
                on_progress=note,
                most_unpacked=self.most_unpacked,
            )
            ending = carry_out(course, choices, note)
            if course.progress.bytes >= LARGE_BYTES:
                self.database.settle()
            return ending
        except MissingFileError:
            ending = gone()
        except (InvalidInputError, ConflictError, NotFoundError) as error:
            ending = rejected(error)
        with self.database.write() as session:
            self._end(session, course, ending)
        return ending

    def _note(self, course: _Course, progress: Progress) -> None:
        """Let all see how far it is, in a transaction of its own, once a second."""
        course.watch.check()
        course.progress = progress
        if time.monotonic() < course.noted + _NOTE_SECONDS:
            return
        course.noted = time.monotonic()
        with suppress(UnavailableError), self.database.write() as session:
            check_held(session, course.task)
            note_progress(session, course.import_id, progress)

    def _end(self, session: Session, course: _Course, ending: Ending) -> None:
        end_import(session, course.task, ending, course.progress, at=self.clock())

    def _begin(self, session: Session, course: _Course, choices: Choices) -> Attempt:
        return begin_attempt(
            session,
            course.task,
            # Not in this transaction, which is at work while more of the file is read.
            self.database.read,
            at=self.clock(),
            choices=choices,
            most_unpacked=self.most_unpacked,
        )

    def _write_at_once(
        self, course: _Course, choices: Choices, note: Callable[[Progress], None]
    ) -> Ending:
        def work(session: Session) -> Ending:
            attempt = self._begin(session, course, choices)
            ending = done(attempt.carry_out(session, note))
            self._end(session, course, ending)
            return ending

        return self.database.run(work)

    def _stage(
        self, course: _Course, choices: Choices, note: Callable[[Progress], None]
    ) -> Ending:
        """Write in pieces that let others in between, and show all at the end."""
        with self.database.read() as session:
            attempt = self._begin(session, course, choices)
        with self.database.staging() as writes:
            clear_ended(writes, at=self.clock(), import_id=course.import_id)
            stage = Stage(self.clock, course.import_id)
            try:
                staged = attempt.stage(writes, stage, note)
                with self.database.write() as session:
                    ending = done(staged.show(session))
                    self._end(session, course, ending)
            except StoppedError:
                # The next attempt clears it, and this worker is to end soon.
                raise
            except GivenUpError as error:
                raise LostTaskError(str(error)) from error
            except Exception:
                clear(writes, stage.owner_id)
                raise
        return ending


class Clearing(Handler):
    """Deletes the files of imports that have ended, and what others left in SQLite.

    The key of a task is the import; without one it is about staged rows whose process
    has died.
    """

    kind = CLEARING

    def has_unplanned(self, session: Session, at: datetime) -> bool:
        """Whether staged rows are left that nobody holds."""
        return (
            self.database.is_sqlite
            and has_left_over(session, at=at)
            and find_task(session, CLEARING, "") is None
        )

    def plan(self, session: Session, at: datetime) -> None:
        """Add the task that deletes them."""
        if self.has_unplanned(session, at):
            enqueue(session, CLEARING, due_at=at)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Delete it in pieces that let others in between."""
        [task] = tasks
        if task.key:
            clear_arriving(self.database.write, int(task.key))
            delete_file(self.database.write, int(task.key))
        else:
            with self.database.staging() as writes:
                clear_ended(writes, at=self.clock())
        self.finish(task)
        return 0
