"""Sending the records of a window, and what the server refuses of them.

A request that got no answer is sent again under the same Idempotency-Key, and was
carried out once.  What comes without a problem document is no word of Tracker's, and
so nothing is given up for it.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tracker_client.reading import Record, Window
from tracker_client.rows import DETECTOR, IMAGE, encode
from tracker_client.server import Answer, Server, ServerError, path_of

log = logging.getLogger("tracker_client")

# Refused for good: the same would be refused again.
_FINAL = frozenset({400, 404, 405, 409, 410, 413, 415, 422})
# Of many rows the body may be at fault for one: each half is tried by itself.
_DIVISIBLE = frozenset({400, 413, 422})
# An import names so many mistakes at most.
_MOST_ERRORS = 1_000
# How a row begins that was given no instant of its own.
STAMPED = b'{"asked_at":'


class LaterError(Exception):
    """The server does not take it now; *seconds* is how long it asks to wait."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        """Say why, and when to try again if the server says so."""
        super().__init__(reason)
        self.seconds = seconds


class RefusedError(Exception):
    """Refused for good."""

    def __init__(self, answer: Answer) -> None:
        """Carry the *answer*."""
        super().__init__(answer.detail)
        self.answer = answer


@dataclass
class Outcome:
    """What came of a window."""

    sent: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, record: Record, status: int, errors: Any) -> None:
        """Keep a record with the server's words."""
        entry: dict[str, Any] = {
            "detector": json.loads(record.detector),
            "key": json.loads(record.key),
            "status": status,
            "errors": errors,
            "row": json.loads(record.row),
        }
        if record.image is not None:
            entry["image"] = record.image.decode()
        self.refused.append(entry)


class Delivery:
    """One window on its way; ``run`` may be called until it does not raise."""

    def __init__(self, server: Server, window: Window, spool: str) -> None:
        """Send *window* of the spool that is called *spool* to *server*."""
        self._server = server
        self._name = f"{spool}-{window.name}"
        self.outcome = Outcome()
        groups: dict[bytes, list[Record]] = {}
        for one in window.records:
            groups.setdefault(one.detector, []).append(one)
        self._steps = iter(list(self._plan(groups)))
        self._step: tuple[str, list[Record]] | None = None

    def _plan(
        self, groups: dict[bytes, list[Record]]
    ) -> Iterator[tuple[str, list[Record]]]:
        """Yield the requests: first what must be there, then labels and other rows."""
        for number, records in enumerate(groups.values()):
            for place, one in enumerate(records):
                if one.kind in {DETECTOR, IMAGE}:
                    yield f"{number}-{place}", [one]
            rows = [one for one in records if one.kind not in {DETECTOR, IMAGE}]
            if rows:
                yield f"{number}", rows

    def run(self) -> Outcome:
        """Send what is left of the window; raises LaterError, UnreachableError."""
        while True:
            if self._step is None:
                self._step = next(self._steps, None)
            if self._step is None:
                return self.outcome
            name, records = self._step
            if records[0].kind == DETECTOR:
                self._make_detector(records[0])
            elif records[0].kind == IMAGE:
                self._send_image(name, records[0])
            else:
                self._import(name, records)
            self._step = None

    def _ask(
        self, method: str, path: str, name: str, body: bytes, media_type: str
    ) -> Answer:
        headers = {"Content-Type": media_type, "Idempotency-Key": name}
        answer = self._server.ask(method, path, body, headers)
        if 200 <= answer.status < 300:
            return answer
        is_running = answer.status == 409 and answer.retry_after is not None
        if answer.is_problem and answer.status in _FINAL and not is_running:
            raise RefusedError(answer)
        raise LaterError(f"{answer.status} {answer.detail}", answer.wait_seconds)

    def _make_detector(self, record: Record) -> None:
        try:
            self._server.get(path_of(json.loads(record.detector)))
        except ServerError as error:
            if error.status != 404 or not error.problem:
                raise LaterError(str(error)) from error
        else:
            return
        # Without an idempotency key: it may have been archived since the last time.
        headers = {"Content-Type": "application/json"}
        answer = self._server.ask("POST", "/detectors", record.row, headers)
        if answer.is_problem and answer.status in {400, 422}:
            self.outcome.refuse(record, answer.status, _errors(answer))
        elif answer.status not in {201, 409}:
            raise LaterError(f"{answer.status} {answer.detail}", answer.wait_seconds)

    def _send_image(self, name: str, record: Record) -> None:
        path = path_of(json.loads(record.detector)) + "/queries"
        try:
            try:
                self._ask("POST", path, f"{self._name}-{name}", *_multipart(record))
            except RefusedError as error:
                unstamped = _unstamped(record)
                if error.answer.status != 409 or unstamped is None:
                    raise
                repeat = _multipart(unstamped)
                self._ask("POST", path, f"{self._name}-{name}-again", *repeat)
        except RefusedError as error:
            answer = error.answer
            self.outcome.refuse(record, answer.status, _errors(answer))
        else:
            self.outcome.sent += 1

    def _import(self, name: str, records: Sequence[Record]) -> None:
        """Import rows; those that are refused do not hold up the others."""
        path = path_of(json.loads(records[0].detector)) + "/import?on_error=skip"
        body = b'{"items":[' + b",".join([one.row for one in records]) + b"]}"
        key = f"{self._name}-{name}"
        try:
            answer = self._ask("POST", path, key, body, "application/json")
        except RefusedError as error:
            status = error.answer.status
            if len(records) > 1 and status in _DIVISIBLE:
                self._import_halves(name, records)
                return
            for one in records:
                self.outcome.refuse(one, status, _errors(error.answer))
            return
        errors = answer.json["errors"]
        if any(one.get("rows", 1) > 1 + len(one.get("also", ())) for one in errors):
            # Not every row is named.  What was taken is known, and adds nothing.
            self._import_halves(name, records)
            return
        known = len(records)
        if len(errors) >= _MOST_ERRORS:
            # Nothing is said of the rows behind the last one that is named.
            known = errors[-1]["row"] - 1 or 1
        self._sort_out(name, records[:known], errors)
        if known < len(records):
            self._import(f"{name}c", records[known:])

    def _import_halves(self, name: str, records: Sequence[Record]) -> None:
        half = len(records) // 2
        self._import(f"{name}a", records[:half])
        self._import(f"{name}b", records[half:])

    def _sort_out(
        self, name: str, records: Sequence[Record], errors: list[dict[str, Any]]
    ) -> None:
        wrong: dict[int, list[dict[str, Any]]] = {}
        for error in errors:
            for row in (error["row"], *error.get("also", ())):
                wrong.setdefault(row - 1, []).append(
                    {"field": error["field"], "message": error["message"]}
                )
        repeats: list[Record] = []
        for place, found in wrong.items():
            if place >= len(records):
                continue
            one = records[place]
            unstamped = _unstamped(one)
            if unstamped is not None and [e["field"] for e in found] == ["asked_at"]:
                repeats.append(unstamped)
            else:
                self.outcome.refuse(one, 422, found)
                self.outcome.sent -= 1
        self.outcome.sent += len(records) - len(repeats)
        if repeats:
            self._import(f"{name}r", repeats)


def _unstamped(record: Record) -> Record | None:
    """Return *record* without the instant at which it was logged.

    The same key again is the same query, though it is logged at another instant.
    None if that instant was given by the program, and so is part of the query.
    """
    if not record.row.startswith(STAMPED):
        return None
    row = json.loads(record.row)
    del row["asked_at"]
    return record._replace(row=encode(row).encode())


def _errors(answer: Answer) -> Any:
    found = answer.json
    with suppress(AttributeError):
        return found.get("errors") or [{"field": None, "message": answer.detail}]
    return answer.detail


def _multipart(record: Record) -> tuple[bytes, str]:
    """Return body and media type of a query with its image."""
    image = base64.b64decode(record.image or b"")
    # The boundary must not stand in the image; base64 has no such letters.
    boundary = b"----tracker-client"
    while boundary in image:
        boundary += b"-"
    body = b"\r\n".join(
        (
            b"--" + boundary,
            b'Content-Disposition: form-data; name="query"',
            b"Content-Type: application/json",
            b"",
            record.row,
            b"--" + boundary,
            b'Content-Disposition: form-data; name="image"; filename="image"',
            b"Content-Type: application/octet-stream",
            b"",
            image,
            b"--" + boundary + b"--",
            b"",
        )
    )
    return body, f"multipart/form-data; boundary={boundary.decode()}"
