"""The command demo: the product on real data, in a folder that is thrown away."""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from tracker.cli.serve import announce, prepare, run
from tracker.cli.setup import configure_logging, now
from tracker.demo.digits import DETECTORS, DemoDetector, Digit, digit_png, load_digits
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.images import clean_image
from tracker.services.keys import create_key
from tracker.services.labels import NewLabel, add_label
from tracker.services.queries import NewQuery, get_query_by_number, log_query
from tracker.settings import Settings
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Detector, find_detector
from tracker.storage.images import ImageStore, open_image_store

# Of the older version this part has been labelled before; of the newer one this
# part gets its labels while the visitor looks, and the rest waits for the visitor.
_LABELLED_BEFORE = 0.5
_LABELLED_LIVE = 0.7
_LABELS_PER_SECOND = 6.0
_SEED = 1998

# A detector's number, a query's number and its true class.
Waiting = tuple[int, int, str]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535))
def demo(host: str, port: int) -> None:
    """Show Tracker on real handwritten digits, with labels arriving live.

    Everything lies in a folder that is deleted at the end.
    """
    with tempfile.TemporaryDirectory(prefix="tracker-demo-") as folder:
        settings = Settings(data_dir=Path(folder), recompute_seconds=1.0)
        configure_logging(settings)
        link = prepare(settings, host, port)
        database = open_database(settings.database)
        begun = now()
        with database.write() as session:
            key = create_key(session, "demo", "admin", created_at=begun)
        waiting = fill(database, open_image_store(settings), created_at=begun)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACKER_")}  # noqa: TID251
        environ = kept | {
            "TRACKER_DATA_DIR": folder,
            "TRACKER_RECOMPUTE_SECONDS": "1",
            # A line for each run of the job would hide the address.
            "TRACKER_LOG_LEVEL": "warning",
        }

        def ready(url: str, link: str | None) -> None:
            click.echo()
            announce(url, link)
            click.echo("Ctrl-C ends the demo.\n")
            click.echo("Labels are arriving; watch the intervals tighten. By API:")
            click.echo(
                f'  curl -H "Authorization: Bearer {key}" '
                f"{url}/api/v1/detectors/{DETECTORS[0].name}/estimate"
            )

        feeder = Feeder(database, waiting)
        status = run(host, port, environ, link, on_ready=ready, each_tick=feeder.tick)
        database.close()
    sys.exit(status)


def fill(
    database: Database, images: ImageStore, *, created_at: datetime
) -> list[Waiting]:
    """Log every query of the demo, and return the labels that shall arrive live.

    The labels come in an order drawn once, so that they are a random sample of
    what the detector sees, as the intervals assume.
    """
    digits = load_digits()
    names: dict[int, str] = {}
    console = Console(stderr=True)
    for digit in follow(digits, "Images", console):
        image = clean_image(digit_png(digit.index))
        names[digit.index] = images.put(image.content, image.suffix)
    draw = random.Random(_SEED)  # noqa: S311 - a sample of a demo, not a secret.
    live: list[list[Waiting]] = []
    for demo_detector in DETECTORS:
        order = draw.sample(digits, len(digits))
        with database.write() as session:
            detector = create_detector(
                session, _described(demo_detector), created_at=created_at
            )
        for version in demo_detector.versions:
            waiting = _log_version(
                database,
                detector,
                demo_detector,
                version,
                order,
                names,
                created_at,
                console,
            )
            if version == demo_detector.versions[-1]:
                live.append(waiting)
    return [label for labels in zip(*live, strict=True) for label in labels]


def follow(digits: list[Digit], text: str, console: Console) -> Iterable[Digit]:
    """Go through *digits* with a bar on a terminal, and without a word elsewhere."""
    # Where nobody looks, a bar that goes away would leave an empty line.
    is_hidden = not console.is_terminal
    return track(digits, text, console=console, transient=True, disable=is_hidden)


def _described(demo_detector: DemoDetector) -> NewDetector:
    return NewDetector(
        name=demo_detector.name,
        question=demo_detector.question,
        classes=list(demo_detector.classes),
        target=demo_detector.target,
    )


def _log_version(  # noqa: PLR0913, PLR0917 - everything that is logged.
    database: Database,
    detector: Detector,
    demo_detector: DemoDetector,
    version: str,
    order: list[Digit],
    images: dict[int, str],
    created_at: datetime,
    console: Console,
) -> list[Waiting]:
    """Log every digit as a query of *version*; the older one gets labels at once."""
    is_old = version != demo_detector.versions[-1]
    labelled = int(len(order) * _LABELLED_BEFORE) if is_old else 0
    live: list[Waiting] = []
    text = f"{demo_detector.name} {version}"
    with database.write() as session:
        for position, digit in enumerate(follow(order, text, console)):
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
                sampling="random" if position < labelled else None,
            )
            query, _ = log_query(
                session,
                detector,
                new,
                labeler="demo",
                created_at=created_at,
                image=images[digit.index],
            )
            if position < _LABELLED_LIVE * len(order):
                live.append((detector.id, query.id, truth))
    return live


class Feeder:
    """Gives the labels that wait, a few each second."""

    def __init__(self, database: Database, waiting: list[Waiting]) -> None:
        """Give the labels *waiting* one after the other from now on."""
        self._database = database
        self._waiting: Iterator[Waiting] = iter(waiting)
        self._begun = time.monotonic()
        self._given = 0

    def tick(self) -> None:
        """Give as many labels as are due."""
        due = int((time.monotonic() - self._begun) * _LABELS_PER_SECOND) - self._given
        # After a laptop has slept, the labels go on as they did, not all at once.
        for _ in range(min(due, int(_LABELS_PER_SECOND))):
            following = next(self._waiting, None)
            if following is not None:
                self._give(following)
        self._given += max(due, 0)

    def _give(self, waiting: Waiting) -> None:
        detector_id, query_id, truth = waiting
        with self._database.write() as session:
            query = get_query_by_number(session, detector_id, query_id)
            detector = find_detector(session, detector_id)
            # The visitor may have been faster; a person's label stays.
            if detector is not None and query.label is None:
                new = NewLabel(label=truth, sampling="random")
                add_label(
                    session, detector, query, new, labeler="demo", created_at=now()
                )
