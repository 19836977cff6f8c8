"""Files to download: the history and the labels of a detector."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from flask import Response, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.http import send_rows
from tracker.services.estimates.history import (
    ASKED_AT,
    LABEL_COLUMNS,
    HistoryOrder,
    dump_rows,
    history_columns,
    iter_history,
    iter_labels,
)
from tracker.services.estimates.intervals import check_method
from tracker.services.exports import MEDIA_TYPES, Rows
from tracker.services.versions import choose_versions
from tracker.storage.base import dump_id
from tracker.web.blueprint import page, reading
from tracker.web.estimates.history import choose_measure
from tracker.words import EXACT


def download(
    reference: str,
    what: str,
    suffix: str,
    columns: Sequence[str],
    rows: Callable[[Session], Rows],
) -> Response:
    """Return *rows* as a file of the format *suffix*; raises NotFoundError.

    The file is named by an id, such as the *reference*: a name from a user has no
    place in a header.
    """
    if suffix not in MEDIA_TYPES:
        raise NotFoundError(
            f"there is no such format; there are: {', '.join(MEDIA_TYPES)}"
        )
    return send_rows(suffix, columns, rows, f"tracker-{reference}-{what}.{suffix}")


@page("GET /detectors/<detector_id>/history.<suffix>", "viewer")
def download_history(detector_id: str, suffix: str) -> ResponseReturnValue:
    version = request.args.get("version") or None
    with reading(detector_id) as (session, detector):
        choose_versions(session, detector, version)

    measure, method = choose_measure(), request.args.get("method", EXACT)
    check_method(method, or_all=True)
    by: HistoryOrder = ASKED_AT if request.args.get("by") == ASKED_AT else "arrival"
    choices: dict[str, Any] = {"version": version, "measure": measure, "method": method}

    def rows(session: Session) -> Iterator[dict[str, Any]]:
        return dump_rows(iter_history(session, detector, by=by, **choices))

    columns = history_columns(measure, by)
    return download(dump_id("det", detector.id), "history", suffix, columns, rows)


@page("GET /detectors/<detector_id>/labels.<suffix>", "viewer")
def download_labels(detector_id: str, suffix: str) -> ResponseReturnValue:
    with reading(detector_id) as (_, detector):
        reference = dump_id("det", detector.id)

    rows = partial(iter_labels, detector=detector)
    return download(reference, "labels", suffix, LABEL_COLUMNS, rows)
