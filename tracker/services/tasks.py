"""The kinds of tasks, and their retry policies."""

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.storage import tasks as storage

_LONGEST_ERROR = 2_000


@dataclass(frozen=True, slots=True)
class Policy:
    """The retries and the concurrency of a kind of task.

    A failed task rests for *first_seconds*, then *factor* times longer after each
    failure, up to *longest_seconds*.  It is given up once *gives_up_after* have passed
    since its first attempt, or after *most_attempts* without progress; without either
    it is retried for ever.
    """

    first_seconds: float
    factor: float
    longest_seconds: float
    gives_up_after: timedelta | None = None
    most_attempts: int | None = None
    # Concurrent runs in a worker: of the kind, and of one lane.
    at_once: int = 1
    at_once_in_lane: int = 1
    # Tasks of one run.
    batch: int = 1


# For webhooks and mail: after 5 s, 15 s, 45 s and so on up to 12 hours, for 3 days.
_TELLING = Policy(5.0, 3.0, 12 * 3600.0, gives_up_after=timedelta(days=3))
# For Tracker's own work and the operator's servers: up to an hour, for ever.
_LASTING = Policy(10.0, 2.0, 3600.0)
POLICIES = {
    storage.ADDRESS: _TELLING,
    storage.DIGEST: _TELLING,
    # A lane is a webhook, which gets one message at a time.
    storage.DELIVERY: replace(_TELLING, at_once=100),
    # A lane is a detector, whose predictor is asked about four queries at a time.
    storage.PREDICTION: replace(_LASTING, at_once=16, at_once_in_lane=4),
    storage.ESTIMATES: _LASTING,
    storage.RETENTION: _LASTING,
    storage.STALLS: _LASTING,
    storage.AUDITS: _LASTING,
    # A file that fails or kills the worker three times does so the fourth time too.
    storage.IMPORT: replace(_LASTING, most_attempts=3),
    storage.CLEARING: _LASTING,
    # Two, so that a large import does not delay other detectors; detectors with few
    # new labels share a run.
    storage.RECOMPUTE: replace(_LASTING, at_once=2, at_once_in_lane=2, batch=64),
}


def rest_seconds(kind: str, attempts: int) -> float:
    """Return how long a task rests after *attempts*."""
    policy = POLICIES[kind]
    # A larger power would overflow.
    seconds = policy.first_seconds * policy.factor ** min(attempts - 1, 50)
    # Tasks that failed together are not retried together.
    jitter = 1.0 + 0.1 * random.random()  # noqa: S311 - no secret.
    return min(seconds, policy.longest_seconds) * jitter


def is_over(task: storage.Task, *, at: datetime) -> bool:
    policy = POLICIES[task.kind]
    if policy.most_attempts is not None and task.vain_attempts >= policy.most_attempts:
        return True
    begun = task.begun_at or at
    return policy.gives_up_after is not None and at - begun >= policy.gives_up_after


def retry(  # noqa: PLR0913 - the result of an attempt.
    session: Session,
    task: storage.Task,
    error: str,
    *,
    at: datetime,
    is_final: bool = False,
    at_least_seconds: float = 0.0,
) -> bool:
    """Let a failed, held task rest, or give it up; return whether it is given up."""
    text = dump_error(error)
    if is_final or is_over(task, at=at):
        storage.let_go(session, task, error=text, ended_at=at)
        return True
    seconds = max(rest_seconds(task.kind, task.attempts), at_least_seconds)
    due_at = at + timedelta(seconds=seconds)
    storage.let_go(session, task, error=text, due_at=due_at)
    return False


def dump_error(error: str | Exception) -> str:
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    # PostgreSQL stores no NUL, and neither database a lone surrogate.
    sound = text.encode(errors="replace").decode().replace("\x00", "?")
    return sound[:_LONGEST_ERROR]
