"""A visitor of the pages, and detectors for them to look at."""

import io
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from PIL import Image
from werkzeug.test import TestResponse

from tests.conftest import START, Clock, FillOnce, by, signed_in
from tests.imports import import_rows
from tests.web.reading import Page, read
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.people.accounts import create_account, set_password
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector

PUBLISHED = [("YES", "YES")] * 23 + [("NO", "YES")] * 5
PUBLISHED += [("NO", "NO")] * 41 + [("YES", "NO")] * 3
PASSWORD = "violin anchor tuesday"


class Visitor:
    """Asks for pages as a browser does, with the token of a form when it posts."""

    def __init__(self, app: Flask, name: str = "web", role: str = "admin") -> None:
        self.client = signed_in(app, name, role)
        self.token = self.get("/account").form("/sign-out")["csrf_token"]

    def get(self, path: str, **options: Any) -> Page:
        return read(self.client.get(path, **options))

    def post(self, path: str, fields: dict[str, Any] | None = None) -> Page:
        return read(self.send(path, fields))

    def send(self, path: str, fields: dict[str, Any] | None = None) -> TestResponse:
        data = {"csrf_token": self.token, **(fields or {})}
        return self.client.post(path, data=data)


class Shelf:
    """Puts detectors, queries and labels into the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add_detector(self, **described: Any) -> str:
        """Add a detector whose labels are of queries drawn at random.

        Where nobody has said how they were drawn, ``label_sampling`` is None.
        """
        new = {
            "name": "door",
            "question": "Is the door closed?",
            "classes": ["YES", "NO"],
            "label_sampling": "random",
        }
        with self._database.write() as session:
            described = new | described
            detector = create_detector(
                session, NewDetector.model_validate(described), by(at=START)
            )
            return dump_id("det", detector.id)

    def add_queries(self, detector_id: str, rows: Iterable[dict[str, Any]]) -> None:
        with self._database.write() as session:
            detector = find_detector(session, int(detector_id.removeprefix("det_")))
            assert detector is not None
            import_rows(
                session,
                detector,
                rows,
                by("alice", self._clock()),
                digest=uuid4().hex,
            )


def try_password(
    client: FlaskClient, password: str, name: str = "maria", **typed: str
) -> Page:
    form = read(client.get("/sign-in")).form("/sign-in")
    fields = {"name": name, "password": password, "csrf_token": form["csrf_token"]}
    return read(client.post("/sign-in", data=fields | typed))


@pytest.fixture
def visitor(app: Flask) -> Visitor:
    """An admin who is signed in."""
    return Visitor(app)


@pytest.fixture
def maria(database: Database) -> str:
    """An account with a password."""
    with database.write() as session:
        made = create_account(session, "maria", "viewer", by(at=START))
        set_password(session, made, PASSWORD, by())
    return "maria"


@pytest.fixture
def shelf(database: Database, clock: Clock) -> Shelf:
    return Shelf(database, clock)


@pytest.fixture
def door(shelf: Shelf) -> str:
    """A detector with three unlabelled queries; the first has a key."""
    detector_id = shelf.add_detector()
    rows = [{"key": f"q{i}", "predicted": "YES", "confidence": 0.61} for i in range(3)]
    shelf.add_queries(detector_id, rows)
    return detector_id


@pytest.fixture
def published(shelf: Shelf, recompute: Callable[[], None], fill_once: FillOnce) -> str:
    """The published example: YES 23 of 28 correct, NO 41 of 44."""

    def build() -> str:
        detector_id = shelf.add_detector(target=0.9)
        rows = [
            {"predicted": said, "label": truth, "version": "v1"}
            for said, truth in PUBLISHED
        ]
        shelf.add_queries(detector_id, rows)
        recompute()
        return detector_id

    return fill_once(build)


@pytest.fixture
def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "teal").save(buffer, "PNG")
    return buffer.getvalue()
