"""Folds as the job computes them."""

from collections.abc import Iterable

from sqlalchemy.orm import Session

from tracker.services.estimates.fold import Fold, read_folds, read_piece, score_folds
from tracker.services.telling.events import FoldEvents
from tracker.storage.detectors import Detector


def compute_folds(
    session: Session, detectors: Iterable[Detector], *, below: int = 400
) -> list[Fold]:
    """Read and score what waits for *detectors*."""
    folds = read_folds(session, detectors, below=below, listeners=[FoldEvents()])
    score_folds(folds)
    return folds


def compute_fold(session: Session, detector: Detector) -> Fold | None:
    """Read and score what waits for *detector*; None if nothing does."""
    fold = read_piece(session, detector, listeners=[FoldEvents()])
    score_folds([fold] if fold else [])
    return fold
