"""Whether a version is good enough, for a build that stops where it is not.

It goes by intervals that hold at every look, so that a gate which is asked after each
commit stays right.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tracker_client.estimates import Estimate, outward
from tracker_client.server import Server, path_of

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
METHOD = "anytime"
EXIT = {MET: 0, MISSED: 1, UNDECIDED: 3}
FAILED = 2
_OF_COMPARISON = {"better": MET, "worse": MISSED, "undecided": UNDECIDED}


class GateError(Exception):
    """It could not be measured."""


@dataclass(frozen=True)
class Check:
    """One condition, what came of it, and why."""

    name: str
    verdict: str
    message: str


@dataclass(frozen=True)
class Result:
    """What the gate says, and by what."""

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


def measure(  # noqa: PLR0913 - one for each option.
    server: Server,
    detector: str,
    *,
    target: float | None = None,
    version: str | None = None,
    max_width: float | None = None,
    not_worse_than: str | None = None,
    population: str | None = None,
) -> Result:
    """Ask *server* whether *detector* meets each condition that is given.

    Without *target* it is the detector's own.  Raises GateError where there is nothing
    to check, ServerError and UnreachableError where there is no answer.
    """
    if version == "*":
        raise GateError("a gate checks one version; pooled versions have no verdict")
    path = path_of(detector)
    found = server.get(path).json
    answer = server.get(
        f"{path}/estimate",
        method=METHOD,
        version=version,
        population=population,
        target=target,
    ).json
    estimate = Estimate(answer, detector, server)
    if answer["decision"] is None and answer["target"] is not None:
        raise GateError(f"no verdict: {answer['no_decision_because']}")
    if answer["population"]["kind"] == "unstated":
        raise GateError(
            f"no verdict: {estimate.labels:,} label"
            f"{'s do' if estimate.labels != 1 else ' does'} not say how the queries "
            "were chosen; state the label sampling of the detector"
        )
    checks = [
        _check_target(one) for one in (answer["decision"], *answer["also"]) if one
    ]
    if max_width is not None:
        checks.append(_check_width(estimate, max_width))
    if not_worse_than is not None:
        checks.append(_check_change(server, path, estimate["version"], not_worse_than))
    if not checks:
        raise GateError(f"{found['name']} has no target: give --target")
    verdicts = {check.verdict for check in checks}
    return Result(
        detector=found["name"],
        version=estimate["version"],
        verdict=next((v for v in (MISSED, UNDECIDED) if v in verdicts), MET),
        target=answer["target"],
        measure=found["measure"],
        population=answer["population"]["kind"],
        method=METHOD,
        low=(answer["decision"] or estimate.balanced)["low"],
        high=(answer["decision"] or estimate.balanced)["high"],
        labels=estimate.labels,
        checks=tuple(checks),
    )


def _check_target(decision: dict[str, Any]) -> Check:
    low, high = outward(decision["low"], decision["high"], 2)
    advice = decision["advice"]
    return Check(
        "target",
        decision["verdict"],
        f"{_name(decision['measure'])} between {low} and {high} %, target "
        f"{100 * decision['target']:g} %, {decision['labels']:,} labels"
        + ("" if advice is None else f". {advice['text']}".removesuffix(".")),
    )


def _name(measure: str) -> str:
    """Return a measure in words, such as "accuracy of DEFECT"."""
    kind, _, of = measure.partition(":")
    if not of:
        return f"{kind} accuracy"
    return f"{'accuracy' if kind == 'recall' else kind} of {of}"


def _check_width(estimate: Estimate, most: float) -> Check:
    width = estimate.balanced["high"] - estimate.balanced["low"]
    # More labels make it narrower: too wide is not yet a failure.
    return Check(
        "max-width",
        MET if width <= most else UNDECIDED,
        f"the interval is {100 * width:.2f} points wide, at most {100 * most:g} wanted",
    )


def _check_change(server: Server, path: str, new: str | None, old: str) -> Check:
    found = server.get(f"{path}/comparison", old=old, new=new).json
    decision = found["decision"]
    if decision is None:
        return Check(
            "not-worse-than",
            UNDECIDED,
            f"{new} and {old} have no labelled input in common",
        )
    low, high = outward(decision["low"], decision["high"], 2)
    return Check(
        "not-worse-than",
        _OF_COMPARISON[decision["verdict"]],
        f"{new} against {old}: {decision['verdict']}, the change of the "
        f"{_name(decision['measure'])} lies between {low} and {high} points",
    )
