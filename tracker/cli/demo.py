"""The demo command: Tracker on real data, in a temporary folder."""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import prepare
from tracker.cli.operations.serve import announce, run, supervise
from tracker.cli.setup import by
from tracker.clock import utc_now
from tracker.demo import cameras
from tracker.demo.digits import DETECTORS, DemoDetector, Digit, digit_png, load_digits
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.images import clean_image
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.people.keys import create_key
from tracker.services.queries.queries import NewQuery, get_query_by_number, log_query
from tracker.settings import Settings
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector, find_detector
from tracker.storage.images import ImageStore, open_image_store
from tracker.words import ADMIN, RANDOM, TARGETED, UNCLEAR

# The share of the queries that get a label, drawn at random.
_LABELLED = 0.7


def log_cameras(
    database: Database, images: ImageStore, *, created_at: datetime
) -> None:
    """Log the queries of four cameras over some weeks, then random labels for most.

    A label comes some time after its query, so labels are late and in another order
    than the queries.
    """
    frames = cameras.load_frames()
    dark = {"change": cameras.darken}
    names = [_store(images, one.index, **dark if one.is_dark else {}) for one in frames]
    draw = random.Random(_SEED)  # noqa: S311 - a sample of a demo, not a secret.
    logged_by = replace(by(), at=created_at, credited="demo")
    first = created_at - timedelta(days=cameras.DAYS)
    spacing = timedelta(days=cameras.DAYS) / len(frames)
    with database.write() as session:
        new = NewDetector(
            name=cameras.NAME,
            question=cameras.QUESTION,
            classes=list(cameras.CLASSES),
            target=cameras.TARGET,
            slices=["camera"],
        )
        detector = create_detector(session, new, by())
        labels: list[tuple[datetime, int, str]] = []
        for position, (frame, name) in enumerate(zip(frames, names, strict=True)):
            asked_at = first + position * spacing
            query = NewQuery(
                key=f"frame-{frame.index}",
                predicted=frame.predicted,
                confidence=frame.confidence,
                version=cameras.VERSION,
                asked_at=asked_at,
                metadata={"camera": frame.camera},
            )
            logged, _ = log_query(session, detector, query, logged_by, image=name)
            if draw.random() < _LABELLED:
                at = asked_at + draw.random() * (created_at - asked_at)
                labels.append((at, logged.id, frame.label))
        for at, query_id, label in sorted(labels):
            given = NewLabel(label=label, sampling=RANDOM, labelled_at=at)
            add_label(session, query_id, given, logged_by)


def _store(images: ImageStore, index: int, **options: Any) -> str:
    image = clean_image(digit_png(index, **options))
    return images.put(image.content, image.suffix)


# The share of the older version that is labelled at the start.
_LABELLED_BEFORE = 0.3
_LABELLED_LIVE = 0.7
_LABELS_PER_SECOND = 6.0
_SEED = 1998
# An audit of this size is finished after about a hundred answers.
_AUDITED, _AUDIT_HALF_WIDTH = 300, 0.14
AUDITED_NAME = "digits-to-audit"

# As with real labelers, a few labels are unclear, a few are wrong and corrected
# later, and a few are picked because the detector was least sure.
_ONE_UNCLEAR_IN = 140
_ONE_CORRECTED_IN = 170
_CORRECTED_AFTER = 40
_TARGETED = 12


@dataclass(frozen=True, slots=True)
class Waiting:
    """A label that will arrive live, and the demo's label that it replaces."""

    detector: int
    query: int
    label: str
    sampling: str = RANDOM
    replaces: str | None = None


@click.command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=8000, type=click.IntRange(1, 65535))
def demo(host: str, port: int) -> None:
    """Show Tracker on real handwritten digits, with labels arriving live.

    The data is in a temporary folder that is deleted at the end.
    """
    with tempfile.TemporaryDirectory(prefix="tracker-demo-") as folder:
        settings = Settings(data_dir=Path(folder), recompute_seconds=1.0)
        configure_logging(settings.log_level)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACKER_")}  # noqa: TID251
        environ = kept | {
            "TRACKER_DATA_DIR": folder,
            "TRACKER_RECOMPUTE_SECONDS": "1",
            # A line for each run of the job would hide the address.
            "TRACKER_LOG_LEVEL": "warning",
        }
        # Without a terminal there is no progress bar.
        click.echo("Making the demo ready; it takes about half a minute.", err=True)
        prepared = prepare(host, port, environ, upgrade=True)
        supervisor = supervise(host, port, environ)
        supervisor.start("web")
        database = open_database(settings.database)
        begun = utc_now()
        with database.write() as session:
            key = create_key(session, "demo", ADMIN, by())
        waiting = fill(database, open_image_store(settings), created_at=begun)

        def ready(url: str, link: str | None) -> None:
            click.echo()
            announce(url, link)
            click.echo("Ctrl-C ends the demo.\n")
            click.echo("Labels are arriving; watch the intervals tighten. By API:")
            click.echo(
                f'  curl -H "Authorization: Bearer {key}" '
                f"{url}/api/v1/detectors/{DETECTORS[0].name}/estimate"
            )

            click.echo(
                "An audit to finish in three minutes, with the keys 1 and 2:\n"
                f"  {url}/audits/aud_1"
            )

        feeder = Feeder(database, waiting)
        status = run(
            supervisor, host, port, prepared, on_ready=ready, each_tick=feeder.tick
        )
        database.close()
    sys.exit(status)


def fill(
    database: Database, images: ImageStore, *, created_at: datetime
) -> list[Waiting]:
    """Log every query of the demo, and return the labels that arrive live.

    The labels come in a random order drawn once, as the intervals assume.
    """
    digits = load_digits()
    names: dict[int, str] = {}
    for digit in follow(digits, "Images"):
        names[digit.index] = _store(images, digit.index)
    draw = random.Random(_SEED)  # noqa: S311 - a sample of a demo, not a secret.
    live: list[list[Waiting]] = []
    for demo_detector in DETECTORS:
        order = draw.sample(digits, len(digits))
        with database.write() as session:
            new = NewDetector(
                name=demo_detector.name,
                question=demo_detector.question,
                classes=list(demo_detector.classes),
                target=demo_detector.target,
            )
            detector = create_detector(session, new, by())
        for version in demo_detector.versions:
            log = partial(_log_version, database, detector, demo_detector, version)
            waiting = log(order, names, created_at)
            if version == demo_detector.versions[-1]:
                live.append(waiting)
    log_cameras(database, images, created_at=created_at)
    add_audit(database, pick_audited(digits), names, created_at)
    return [label for labels in zip(*live, strict=True) for label in labels]


def pick_audited(digits: list[Digit]) -> list[Digit]:
    draw = random.Random(_SEED)  # noqa: S311 - a sample of a demo, not a secret.
    return draw.sample(digits, _AUDITED)


def add_audit(
    database: Database, digits: list[Digit], names: dict[int, str], created_at: datetime
) -> None:
    """Start an audit of a few digits that a visitor finishes in three minutes.

    It has a detector of its own, without labels before and without other labelers, so
    the draws depend only on the visitor's answers.
    """
    described = DETECTORS[0]
    version = described.versions[-1]
    logged_by = replace(by(), at=created_at, credited="demo")
    with database.write() as session:
        new = NewDetector(
            name=AUDITED_NAME,
            question=described.question,
            classes=list(described.classes),
        )
        detector = create_detector(session, new, logged_by)
        for position, digit in enumerate(digits):
            said = digit.predictions[described.name, version]
            query = NewQuery(
                key=f"digit-{digit.index}",
                predicted=said.predicted,
                confidence=said.confidence,
                version=version,
                asked_at=created_at - timedelta(minutes=len(digits) - position),
            )
            log_query(session, detector, query, logged_by, image=names[digit.index])
        audit = NewAudit(
            name="One page of digits",
            aim=described.classes[0],
            half_width=_AUDIT_HALF_WIDTH,
            seed=str(_SEED),
        )
        create_audit(session, detector, audit, logged_by)


def follow(
    digits: list[Digit], text: str, console: Console | None = None
) -> Iterable[Digit]:
    console = console or Console(stderr=True)
    # Without a terminal, a bar that disappears would leave an empty line.
    is_hidden = not console.is_terminal
    return track(digits, text, console=console, transient=True, disable=is_hidden)


def _log_version(  # noqa: PLR0913, PLR0917 - every part of a query.
    database: Database,
    detector: Detector,
    demo_detector: DemoDetector,
    version: str,
    order: list[Digit],
    images: dict[int, str],
    created_at: datetime,
) -> list[Waiting]:
    """Log every digit as a query of *version*, and return the labels to come.

    The older version gets some at once; the newer takes them over with its inputs.
    """
    is_old = version != demo_detector.versions[-1]
    labelled = int(len(order) * _LABELLED_BEFORE) if is_old else 0
    live: list[Waiting] = []
    unsure: list[tuple[float, Waiting]] = []
    text = f"{demo_detector.name} {version}"
    logged_by = replace(by(), at=created_at, credited="demo")
    with database.write() as session:
        for position, digit in enumerate(follow(order, text)):
            said = digit.predictions[demo_detector.name, version]
            truth = demo_detector.label_of(digit.digit)
            new = NewQuery(
                key=f"digit-{digit.index}-{version}",
                input=f"digit-{digit.index}",
                predicted=said.predicted,
                confidence=said.confidence,
                version=version,
                asked_at=created_at - timedelta(minutes=len(order) - position),
                metadata={
                    "source": "UCI optical handwritten digits",
                    "index": digit.index,
                },
                label=truth if position < labelled else None,
                sampling=RANDOM if position < labelled else None,
            )
            query, _ = log_query(
                session, detector, new, logged_by, image=images[digit.index]
            )
            if query.label is not None:
                continue
            waiting = Waiting(detector.id, query.id, truth)
            if position < _LABELLED_LIVE * len(order):
                live.append(waiting)
            else:
                unsure.append((said.confidence, waiting))
    unsure.sort(key=lambda pair: (pair[0], pair[1].query))
    picked = [replace(one, sampling=TARGETED) for _, one in unsure[:_TARGETED]]
    return picked + list(_as_people_label(live, demo_detector.classes))


def _as_people_label(
    waiting: list[Waiting], classes: tuple[str, ...]
) -> Iterator[Waiting]:
    """Yield *waiting* with a few labels unclear and a few corrected.

    The choice does not depend on the predictions.
    """
    late: list[tuple[int, Waiting]] = []
    for number, one in enumerate(waiting, 1):
        if number % _ONE_UNCLEAR_IN == 0:
            yield replace(one, label=UNCLEAR)
        elif number % _ONE_CORRECTED_IN == 0:
            wrong = classes[classes.index(one.label) - 1]
            yield replace(one, label=wrong)
            late.append((number + _CORRECTED_AFTER, replace(one, replaces=wrong)))
        else:
            yield one
        while late and late[0][0] <= number:
            yield late.pop(0)[1]
    yield from (one for _, one in late)


class Feeder:
    """Adds the waiting labels, a few each second."""

    def __init__(self, database: Database, waiting: list[Waiting]) -> None:
        self._database = database
        self._waiting: Iterator[Waiting] = iter(waiting)
        self._begun = time.monotonic()
        self._given = 0

    def tick(self) -> None:
        """Add as many labels as are due."""
        due = int((time.monotonic() - self._begun) * _LABELS_PER_SECOND) - self._given
        # After a laptop has slept, the labels do not come all at once.
        for _ in range(min(due, int(_LABELS_PER_SECOND))):
            following = next(self._waiting, None)
            if following is not None:
                self._give(following)
        self._given += max(due, 0)

    def _give(self, waiting: Waiting) -> None:
        with self._database.write() as session:
            query = get_query_by_number(session, waiting.detector, waiting.query)
            detector = find_detector(session, waiting.detector)
            # A visitor's label stays.
            if detector is not None and query.label == waiting.replaces:
                new = NewLabel(label=waiting.label, sampling=waiting.sampling)
                add_label(session, query.id, new, by().credit("demo"))
