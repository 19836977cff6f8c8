"""A real browser in front of a real server, with the job running behind it."""

import contextlib
import io
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.applications import answering
from tests.conftest import SECRET_KEY, by
from tests.databases import SqliteDatabases
from tests.imports import import_rows
from tests.links import sign_in_by
from tests.services.irises import SEEDS, iris
from tracker.app import create_app
from tracker.clock import utc_now
from tracker.demo.digits import DETECTORS, digit_png, load_digits
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.images import clean_image
from tracker.services.imports.background import add_import
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order
from tracker.services.labelling.studies import add_study, parse_study
from tracker.services.people.accounts import create_account
from tracker.services.people.sign_ins import create_link
from tracker.services.queries.queries import NewQuery, log_query
from tracker.settings import Settings
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageFolder
from tracker.storage.people import find_account

_DIGITS = 60
_LABELLED = 30
_MANY = 150
# A state is waited for as long as a machine that does other work may take to reach it.
_PATIENCE_MS = 60_000
expect.set_options(timeout=_PATIENCE_MS)

# What a page violates is told to nobody but a listener.
_LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""


@dataclass
class Site:
    """A server that runs, and the database behind it."""

    url: str
    database: Database
    digits: dict[str, str] = field(default_factory=dict)
    # Its holder is alone with the database: the job waits for it.
    job: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def without_job(self) -> Iterator[None]:
        """Keep the job from running, with every label folded in before."""
        with self.job:
            recompute_all(self.database, worker="test")
            yield

    def link(self, name: str = "web", role: str = "admin") -> str:
        """Return the address of a link that signs in once as *name*."""
        with self.database.write() as session:
            account = find_account(session, name) or create_account(
                session, name, role, by(at=utc_now()), has_all_detectors=True
            )
            token = create_link(session, account, by(at=utc_now()))
        return f"{self.url}/sign-in?token={token}"


@pytest.fixture(scope="session")
def filled_folder(
    worker_folder: Path, sqlite_databases: SqliteDatabases
) -> tuple[Path, dict[str, str]]:
    """A folder with the digits of the demonstration, and the digit of each query."""
    folder = worker_folder / "site"
    folder.mkdir()
    shutil.copy(sqlite_databases.template, folder / "tracker.db")
    settings = Settings(data_dir=folder)
    database = open_database(settings.database)
    digits = _fill(database, ImageFolder(settings.image_dir))
    digits |= _add_many(database, ImageFolder(settings.image_dir))
    recompute_all(database, worker="test")
    database.close()
    return folder, digits


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, filled_folder: tuple[Path, dict[str, str]]
) -> Iterator[Site]:
    """A server with a copy of those digits, and one empty detector."""
    template, digits = filled_folder
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(template, folder, dirs_exist_ok=True)
    settings = Settings(data_dir=folder, secret_key=SECRET_KEY, recompute_seconds=0.5)
    database = open_database(settings.database)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with made.job:
                recompute_all(database, worker="test")
            stop.wait(0.5)

    with answering(create_app(settings, database)) as url:
        made = Site(url, database, dict(digits))
        thread = threading.Thread(target=work)
        thread.start()
        yield made
        stop.set()
        thread.join()
    database.close()


def _fill(database: Database, images: ImageFolder) -> dict[str, str]:
    """Log some digits to each detector, and return each query's true digit."""
    digits = random.Random(8).sample(load_digits(), _DIGITS)
    truths: dict[str, str] = {}
    for described in DETECTORS:
        with database.write() as session:
            new = NewDetector(
                name=described.name,
                question=described.question,
                classes=list(described.classes),
                target=described.target,
            )
            detector = create_detector(session, new, by(at=utc_now()))
            for number, digit in enumerate(digits):
                said = digit.predictions[described.name, "v2"]
                truth = described.label_of(digit.digit)
                image = clean_image(digit_png(digit.index))
                query, _ = log_query(
                    session,
                    detector,
                    NewQuery(
                        key=f"digit-{digit.index}",
                        predicted=said.predicted,
                        confidence=said.confidence,
                        version="v2",
                        label=truth if number < _LABELLED else None,
                        sampling="random",
                    ),
                    by("demo", utc_now()),
                    image=images.put(image.content, image.suffix),
                )
                truths[f"iq_{query.id}"] = truth
    with database.write() as session:
        new = NewDetector(name="empty", question="Is it?", classes=["YES", "NO"])
        create_detector(session, new, by(at=utc_now()))
    _add_studies(database)
    _add_versions(database)
    _add_import(database)
    return truths


def _add_many(database: Database, images: ImageFolder) -> dict[str, str]:
    """Add a detector with many digits to label, and return each query's digit."""
    truths: dict[str, str] = {}
    described = DETECTORS[1]
    with database.write() as session:
        new = NewDetector(
            name="many digits",
            question=described.question,
            classes=list(described.classes),
        )
        detector = create_detector(session, new, by(at=utc_now()))
        for digit in load_digits()[:_MANY]:
            image = clean_image(digit_png(digit.index))
            said = digit.predictions[described.name, "v2"]
            query, _ = log_query(
                session,
                detector,
                NewQuery(predicted=said.predicted, confidence=said.confidence),
                by("demo", utc_now()),
                image=images.put(image.content, image.suffix),
            )
            truths[f"iq_{query.id}"] = described.label_of(digit.digit)
    return truths


def _add_studies(database: Database) -> None:
    """Add a study of each kind to the first detector."""
    for name, kind, rounds in (
        ("Bootstrap of a tree on 127 irises", "bootstrap", iris()),
        ("Five random seeds", "seeds", SEEDS),
    ):
        said = {"name": name, "kind": kind, "version": "v2", "note": "seed 12345"}
        new = parse_study({**said, "rounds": rounds})
        with database.write() as session:
            detector = session.get_one(Detector, 1)
            add_study(session, detector, new, by("demo", utc_now()))


def _add_versions(database: Database) -> None:
    """Add a detector of which two versions saw the same digits."""
    described = DETECTORS[1]
    rows = [
        {
            "input": f"digit-{digit.index}",
            "version": version,
            "predicted": digit.predictions[described.name, version].predicted,
            "label": described.label_of(digit.digit),
        }
        for version in described.versions
        for digit in load_digits()[:200]
    ]
    with database.write() as session:
        new = NewDetector(
            name="two versions",
            question=described.question,
            classes=list(described.classes),
            label_sampling="random",
        )
        import_rows(
            session,
            create_detector(session, new, by(at=utc_now())),
            rows,
            by("demo", utc_now()),
            digest="two versions",
        )


def _add_import(database: Database) -> None:
    """Leave a file to a worker, who does not come."""
    with database.write() as session:
        file = RowFile("csv", "0", io.BytesIO(b"key\n"))
        add_import(session, Order("det_1", file, by("demo", utc_now())))


@dataclass
class Watch:
    """Everything that a page complained about, or fetched from elsewhere."""

    page: Page
    host: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.host, "data:")):
            self.complaints.append(f"it asked for {request.url}")

    def read(self) -> list[str]:
        return self.complaints + list(self.page.evaluate("window.violations"))


@pytest.fixture
def open_page(chromium: Browser, site: Site) -> Iterator[Any]:
    """Return a function that opens a page and watches it."""
    contexts = []

    def open_one(path: str, **options: Any) -> Watch:
        context = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        contexts.append(context)
        context.set_default_timeout(_PATIENCE_MS)
        context.add_init_script(_LISTEN)
        # The second page takes the greeting of a first visit away.
        sign_in_by(context.request, site.link())
        assert context.request.get(f"{site.url}/account").ok
        watch = Watch(context.new_page(), site.url)
        watch.page.goto(site.url + path)
        return watch

    yield open_one
    for context in contexts:
        context.close()
