"""Requests that change something, each carried out once."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from flask import Response, current_app, request
from sqlalchemy.orm import Session

from tracker.http import BadParametersError, by, database, problem
from tracker.services.idempotency import (
    HEADER,
    StillRunningError,
    add_answer,
    begin_answer,
    find_answer,
)
from tracker.services.wording import show
from tracker.shapes import Shape

LONGEST_KEY = 200
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_RETRY_SECONDS = "1"

PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A word of your own for this request, so that it is carried out "
    "once however often you send it: for 24 hours the same request gets the same "
    "answer.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_KEY,
        "pattern": "^[!-~]+$",
    },
}


def answer_once(
    work: Callable[[Session], tuple[Shape, int]],
    *,
    content: str,
    header: str = HEADER,
    before: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Response:
    """Return what *work* gives in a write, as JSON with its status.

    What is to be done beforehand, outside of it, *before* does, unless there is an
    answer.

    Under an idempotency key, which stands in *header*, the answer is stored in the
    same write, and the same request gets it again.  Two requests are the same if
    their address and their *content*, the body as it was understood or a hash of it,
    are.
    """
    key = _read_key(header)
    if key is None:
        with before():
            answer, status = database().run(work)
        return _respond(current_app.json.dumps(answer.dump()), status)
    digest, asked_by = _digest(content), by()

    def once(session: Session) -> tuple[str, int]:
        stored = begin_answer(session, key, asked_by, digest=digest)
        if stored is None:
            answer, status = work(session)
            stored = add_answer(
                session,
                key,
                asked_by,
                digest=digest,
                status=status,
                body=current_app.json.dumps(answer.dump()),
            )
        return stored.body, stored.status

    try:
        with _taken(asked_by.name, key):
            if before is not nullcontext:
                with database().read() as session:
                    stored = find_answer(session, key, asked_by, digest=digest)
                if stored is not None:
                    return _respond(stored.body, stored.status)
            with before():
                return _respond(*database().run(once))
    except StillRunningError:
        return problem(
            409,
            "It is being carried out",
            f"a request under the {header} {show(key)} has not been answered yet",
            headers={"Retry-After": _RETRY_SECONDS},
        )


@contextmanager
def _taken(owner: str, key: str) -> Iterator[None]:
    """Let no other thread of this process carry out *key* meanwhile.

    On SQLite it would otherwise wait for the first one to end, as every writer
    does; on PostgreSQL it would hold a connection to be told the same.
    """
    taken = current_app.extensions.setdefault("tracker-idempotency-keys", {})
    mine = object()
    if taken.setdefault((owner, key), mine) is not mine:
        raise StillRunningError
    try:
        yield
    finally:
        del taken[owner, key]


def _read_key(header: str) -> str | None:
    key = request.headers.get(header)
    if key is None or (len(key) <= LONGEST_KEY and _VISIBLE.fullmatch(key)):
        return key
    raise BadParametersError.of(
        header,
        f"{show(key)} is not right: 1 to {LONGEST_KEY} visible ASCII characters",
    )


def _digest(content: str) -> str:
    asked = "\n".join((request.method, request.full_path, content))
    return hashlib.sha256(asked.encode()).hexdigest()


def _respond(body: str, status: int) -> Response:
    return Response(body, status, mimetype="application/json")
