"""Folds as the job computes them."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.fold import Fold, read_folds, score_folds
from tracker.services.telling.fold_events import FoldEvents
from tracker.storage.detectors import Detector


def compute_folds(
    session: Session, detectors: Iterable[Detector], **more: Any
) -> list[Fold]:
    """Read and score what waits for *detectors*."""
    folds = read_folds(session, detectors, listeners=[FoldEvents()], **more)
    score_folds(folds)
    return folds


def compute_fold(session: Session, detector: Detector) -> Fold | None:
    """Read and score what waits for *detector*; None if nothing does."""
    return next(iter(compute_folds(session, [detector])), None)
