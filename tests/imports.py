"""Rows imported in a transaction that a test has open."""

import io
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reports import Outcome
from tracker.services.imports.writing import SecondPass, checked
from tracker.storage.detectors import Detector


def import_rows(
    session: Session,
    detector: Detector,
    rows: Iterable[Mapping[str, Any]],
    by: By,
    *,
    digest: str,
    skips: bool = False,
) -> Outcome:
    """Import *rows* as the items of a JSON document whose hash is *digest*."""
    items = [dict(row) for row in rows]
    file = RowFile("json", digest, io.BytesIO(), {"items": items})
    return import_file(session, detector, file, by, skips=skips)


def import_file(
    session: Session, detector: Detector, file: RowFile, by: By, *, skips: bool = False
) -> Outcome:
    """Import *file*; raises RejectedImportError if a row is bad, unless it *skips*."""
    opened = nullcontext(session)
    with checked(lambda: opened, detector, file, by) as found:
        second = SecondPass(found, skips=skips)
        for _ in second.write(lambda work: work(session)):
            pass
        return second.finish(session).outcome
