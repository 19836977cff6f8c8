"""One guarantee taken out of a process, to see that the harness notices.

Python imports this module at its start, in every process that finds this folder in
PYTHONPATH; TRACKER_TEST_MUTANT names what is taken out, or what is made hard.
"""

import os
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.orm import Session


def acknowledge_before_commit():
    """The answer goes out first; the transaction is committed with the next request.

    Whenever a server is killed that has answered, its last answer is not kept; once
    the kills are over every answer is.
    """
    from flask import has_request_context

    from tracker.storage.database import Database

    over = Path(os.environ["TRACKER_DATA_DIR"]) / "kills-are-over"  # noqa: TID251
    one_at_a_time = threading.Lock()
    answered = []
    write_at_once = Database.write

    @contextmanager
    def write(self):
        if not has_request_context() or over.exists():
            with write_at_once(self) as session:
                yield session
            return
        with one_at_a_time:
            for session in answered:
                session.commit()
                session.close()
            answered.clear()
            session = Session(self.engine, expire_on_commit=False)
            try:
                yield session
                session.flush()
            except BaseException:
                session.close()
                raise
            answered.append(session)

    Database.write = write


def store_a_known_key_again():
    """What a repeat would do without the key being unique."""
    from tracker.services.queries import queries

    original = queries.log_query

    def log_query(session, detector, new, by, **given):
        query, is_new = original(session, detector, new, by, **given)
        if is_new:
            return query, True
        again = new.model_copy(update={"key": None})
        return original(session, detector, again, by, **given)

    queries.log_query = log_query


def let_workers_write_at_will():
    """No holds: a worker that folded writes, even if another one has written since."""
    from sqlalchemy import true

    from tracker.services.estimates import fold
    from tracker.storage import tasks
    from tracker.storage.estimates import pending

    due = tasks._is_due

    def is_due(kind, lane, at):
        if kind != tasks.RECOMPUTE:
            return due(kind, lane, at)
        return tasks._IS_OPEN & (tasks.Task.kind == kind) & true()

    tasks._is_due = is_due

    pending.advance_revisions = lambda *_: True
    end = pending.end_batches

    def end_batches(session, parts):
        end(session, parts)
        return True

    pending.end_batches = end_batches
    read = fold.read_folds

    def read_folds(session, detectors, **more):
        folds = read(session, detectors, **more)
        # Long enough for another worker to begin with the same labels.
        time.sleep(1)
        return folds

    fold.read_folds = read_folds


def commit_late():
    """Every third transaction that adds labels takes its time; no harm in that."""
    from tracker.services.imports import row_writer as imports
    from tracker.services.queries import queries

    add_batch, add_batch_of = imports.add_batch, queries.add_batch_of

    def add_late(session, detector_id, *, created_at):
        number = add_batch(session, detector_id, created_at=created_at)
        if number % 3 == 0:
            time.sleep(0.7)
        return number

    def add_late_of(session, detector_id, version, *, created_at):
        place = add_batch_of(session, detector_id, version, created_at=created_at)
        if (place[0] >> 24) % 3 == 0:
            time.sleep(0.7)
        return place

    imports.add_batch, queries.add_batch_of = add_late, add_late_of


def follow_a_clock():
    """All that the process does is so many seconds later; no harm in that."""
    from datetime import UTC, datetime, timedelta

    from tracker import clock

    ahead = Path(os.environ["TRACKER_TEST_AHEAD"])  # noqa: TID251

    def later():
        return datetime.now(UTC) + timedelta(seconds=float(ahead.read_text()))

    clock.utc_now = later


def fold_by_a_watermark():
    """Batches up to the newest one that was folded count as done."""
    commit_late()
    from tracker.storage.estimates import pending

    newest = {}
    original = pending.list_pending_batches

    def list_pending_batches(session, detector_ids):
        found = {}
        for detector_id, batches in original(session, detector_ids).items():
            behind = newest.get(detector_id, 0)
            if later := [n for n in batches if n > behind]:
                found[detector_id] = later
                newest[detector_id] = max(later)
        return found

    pending.list_pending_batches = list_pending_batches


try:
    globals()[os.environ["TRACKER_TEST_MUTANT"]]()  # noqa: TID251 - of the tests
except BaseException:  # noqa: BLE001 - whatever it is.
    # Python would only print this and go on, without what the test is about.
    traceback.print_exc()
    os._exit(70)
