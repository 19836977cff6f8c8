"""The Idempotency-Key: a request that is sent again gets the first response."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from flask import Response, current_app, request
from pydantic import BaseModel
from sqlalchemy.orm import Session

from tracker.http.requests import BadParametersError, by, context
from tracker.http.responses import problem
from tracker.services import idempotency, wording
from tracker.shapes import Shape

_LONGEST_KEY = 200
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_RETRY_SECONDS = "1"

IDEMPOTENCY_PARAMETER = {
    "name": idempotency.HEADER,
    "in": "header",
    "required": False,
    "description": "A unique value for this request. If you send the request again "
    "within 24 hours, it is not carried out again and gets the same answer.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": _LONGEST_KEY,
        "pattern": "^[!-~]+$",
    },
}


def answer_idempotently(
    work: Callable[..., tuple[Shape, int]],
    *content: BaseModel | str | None,
    header: str = idempotency.HEADER,
    before: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Response:
    """Run *work* in one write, and respond with its shape and status.

    *before* wraps the write, for work that needs no transaction; what it gives is put
    behind the session.  It is skipped if the response is already stored.

    With an idempotency key in *header* the response is stored in the same write, and
    sending the request again returns it.  Two requests are the same if their method,
    address and *content* (the parsed body, or its hash) are.
    """
    key = request.headers.get(header)
    if key is None:
        with before() as given:
            more = () if given is None else (given,)
            answer, status = context().database.run(work, *more)
        body = current_app.json.dumps(answer.dump())
        return Response(body, status, mimetype="application/json")
    if len(key) > _LONGEST_KEY or not _VISIBLE.fullmatch(key):
        raise BadParametersError.of(
            header,
            f"{wording.show(key)} must be 1 to {_LONGEST_KEY} visible ASCII characters",
        )
    try:
        body, status = _answer_once(work, content, key, before)
    except idempotency.StillRunningError:
        return problem(
            409,
            "Request in progress",
            f"a request with the {header} {wording.show(key)} is still running",
            headers={"Retry-After": _RETRY_SECONDS},
        )
    return Response(body, status, mimetype="application/json")


def _answer_once(
    work: Callable[..., tuple[Shape, int]],
    content: Sequence[BaseModel | str | None],
    key: str,
    before: Callable[[], AbstractContextManager[Any]],
) -> tuple[str, int]:
    """Return the stored body and status, or those of *work*; see above."""
    parts = [
        part.model_dump_json() if isinstance(part, BaseModel) else str(part)
        for part in content
    ]
    asked = "\n".join((request.method, request.full_path, *parts))
    digest, asked_by = hashlib.sha256(asked.encode()).hexdigest(), by()

    def find_or_run(session: Session, *given: Any) -> tuple[str, int]:
        def run() -> tuple[str, int]:
            answer, status = work(session, *given)
            return current_app.json.dumps(answer.dump()), status

        stored = idempotency.answer_once(session, key, asked_by, run, digest=digest)
        return stored.body, stored.status

    with _lock_key(asked_by.name, key):
        if before is not nullcontext:
            with context().database.read() as session:
                stored = idempotency.find_answer(session, key, asked_by, digest=digest)
            if stored is not None:
                return stored.body, stored.status
        with before() as given:
            more = () if given is None else (given,)
            return context().database.run(find_or_run, *more)


@contextmanager
def _lock_key(owner: str, key: str) -> Iterator[None]:
    """Refuse *key* to the other threads of this process during the block.

    On SQLite such a thread would wait for the first one to end, as every writer does;
    on PostgreSQL it would hold a connection only to be refused.
    """
    taken = current_app.extensions.setdefault("tracker-idempotency-keys", {})
    mine = object()
    if taken.setdefault((owner, key), mine) is not mine:
        raise idempotency.StillRunningError
    try:
        yield
    finally:
        del taken[owner, key]
