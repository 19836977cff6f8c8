"""The detector of the demo whose camera north went dark on a day."""

import random
from dataclasses import replace
from datetime import datetime, timedelta

from tracker.cli.setup import by
from tracker.demo import cameras
from tracker.demo.digits import digit_png
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.images import clean_image
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.images import ImageStore
from tracker.words import RANDOM

# Such a share of the queries has a label, drawn by chance.
_LABELLED = 0.7
_SEED = 1998


def log_cameras(
    database: Database, images: ImageStore, *, created_at: datetime
) -> None:
    """Log what four cameras saw over some weeks, and then most labels, by chance.

    A label comes some time between its query and now, so they are late and in another
    order than the queries.
    """
    frames = cameras.load_frames()
    names = [_store(images, frame) for frame in frames]
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


def _store(images: ImageStore, frame: cameras.Frame) -> str:
    if frame.is_dark:
        content = digit_png(frame.index, change=cameras.darken)
    else:
        content = digit_png(frame.index)
    image = clean_image(content)
    return images.put(image.content, image.suffix)
