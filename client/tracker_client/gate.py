"""Whether a version is good enough, for a build that stops where it is not.

It goes by intervals that hold at every look, so that a gate which is asked after each
commit stays right.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tracker_client.server import Server, path_of

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
EXIT = {MET: 0, MISSED: 1, UNDECIDED: 3}
FAILED = 2


@dataclass(frozen=True)
class Check:
    """One condition, what came of it, and why."""

    name: str
    verdict: str
    message: str


@dataclass(frozen=True)
class Result:
    """What the gate says, and by what."""

    basis: str
    confidence_level: float
    detector: str
    version: str | None
    verdict: str
    target: float | None
    measure: str
    population: str
    method: str
    low: float
    high: float
    labels: int
    checks: tuple[Check, ...]

    def dump(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def measure(server: Server, detector: str, **conditions: Any) -> Result:
    """Ask *server* whether *detector* meets each of the *conditions* that is given.

    Without ``target`` it is the detector's own.  Raises ServerError where it cannot be
    measured, and UnreachableError where there is no answer.
    """
    given = {name: value for name, value in conditions.items() if value is not None}
    answer = server.post(f"{path_of(detector)}/gate", given).json
    checks = tuple(Check(**one) for one in answer.pop("checks"))
    return Result(**answer, checks=checks)
