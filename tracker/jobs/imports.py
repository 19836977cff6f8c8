"""The tasks that run imports in the background and delete their files."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
        begun, progress = time.perf_counter(), Progress()
        with self.database.write() as session:
            hold(session, task, locks=False)
            fresh = {"started_at": self.clock(), "rows_read": 0, "bytes_read": 0}
            storage.change_import(session, task.row, state=storage.RUNNING, **fresh)
        try:
            state = self._carry_out(task, watch, progress)
        except (
            background.MissingFileError,
            errors.InvalidInputError,
            errors.ConflictError,
            errors.NotFoundError,
        ) as error:
            with self.database.write() as session:
                at = self.clock()
                state = background.refuse_import(session, task, error, progress, at=at)
                tell_failed_import(session, task.row, at)
        log.info(
            "imported",
            file_import=dump_id("imp", task.row[1]),
            state=state,
            seconds=round(time.perf_counter() - begun, 4),
        )
        return 1

    def _carry_out(self, task: Task, watch: Watch, progress: Progress) -> str:
        noted = 0.0

        def note(now: Progress) -> None:
            """Store the progress once a second, in a transaction of its own."""
            nonlocal noted
            watch.check()
            progress.update(now)
            if time.monotonic() < noted + _NOTE_SECONDS:
                return
            noted = time.monotonic()
            with suppress(errors.UnavailableError), self.database.write() as session:
                hold(session, task, locks=False)
                storage.change_import(session, task.row, **progress)

        def note_piece(session: Session, written: Written) -> None:
            background.note_written(session, task, written)

        def finish(session: Session) -> str:
            at = self.clock()
            return background.finish_import(session, task, second, progress, at=at)

        with background.attempting(
            task,
            self.database.read,
            self.images,
            clock=self.clock,
            on_progress=note,
            most_unpacked=self.most_unpacked,
        ) as second:
            most = most_rows(self.database)
            for _ in second.write(self.database.run_piece, note_piece, most=most):
                note(progress)
            state = self.database.run(finish)
        self.database.settle(is_large=progress["bytes_read"] >= LARGE_BYTES)
        return state


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
