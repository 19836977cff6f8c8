"""One guarantee taken out of a process, to see that the harness notices.

Python imports this module at its start, in every process that finds this folder in
PYTHONPATH; TRACKER_TEST_MUTANT names what is taken out, or what is made hard.
"""

import os
import threading
import time
from contextlib import contextmanager

from sqlalchemy.orm import Session


def acknowledge_before_commit():
    """The answer goes out first, and a moment later the transaction is committed."""
    from tracker.storage.database import Database

    def commit_late(session):
        time.sleep(0.05)
        session.commit()
        session.close()

    @contextmanager
    def write(self):
        session = Session(self.engine, expire_on_commit=False)
        try:
            yield session
            session.flush()
        except BaseException:
            session.close()
            raise
        threading.Thread(target=commit_late, args=[session]).start()

    Database.write = write


def store_a_known_key_again():
    """What a repeat would do without the key being unique."""
    from tracker.services import queries

    original = queries.log_query

    def log_query(session, detector, new, **given):
        query, is_new = original(session, detector, new, **given)
        if is_new:
            return query, True
        again = new.model_copy(update={"key": None})
        return original(session, detector, again, **given)

    queries.log_query = log_query


def let_workers_write_at_will():
    """No leases, and whoever folded writes, even if another worker has meanwhile."""
    from tracker.jobs import recompute as job
    from tracker.services import recompute

    take = job.take_leases
    job.take_leases = lambda *given, **more: take(*given, **more | {"is_forced": True})

    recompute.advance_revision = lambda session, detector_id, seen: True
    delete = recompute.delete_batches

    def delete_batches(session, batches):
        delete(session, batches)
        return len(batches)

    recompute.delete_batches = delete_batches
    compute = recompute.compute_fold

    def compute_fold(session, detector):
        fold = compute(session, detector)
        # Long enough for another worker to begin with the same labels.
        time.sleep(1)
        return fold

    job.compute_fold = compute_fold


def commit_late():
    """Every third transaction that adds labels takes its time; no harm in that."""
    from tracker.services import imports, queries

    original = imports.add_batch

    def add_batch(session, detector_id, *, created_at):
        number = original(session, detector_id, created_at=created_at)
        if number % 3 == 0:
            time.sleep(0.7)
        return number

    imports.add_batch = queries.add_batch = add_batch


def fold_by_a_watermark():
    """Batches up to the newest one that was folded count as done."""
    commit_late()
    from tracker.services import recompute

    newest = {}
    original = recompute.list_pending_batches

    def list_pending_batches(session, detector_id):
        behind = newest.get(detector_id, 0)
        found = [n for n in original(session, detector_id) if n > behind]
        newest[detector_id] = max(found, default=behind)
        return found

    recompute.list_pending_batches = list_pending_batches


globals()[os.environ["TRACKER_TEST_MUTANT"]]()  # noqa: TID251 - of the tests
