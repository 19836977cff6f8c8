"""Estimates in plain sentences, with their counts and intervals."""

from tracker.charts.words import aloud, bounds, chosen, class_reading, plain, plural
from tracker.rounding import percents
from tracker.services.deciding.comparison import Comparison
from tracker.services.deciding.planning import LabelPlan
from tracker.services.estimates.decision import Decision, Span
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import score_named
from tracker.services.estimates.report import tell_change
from tracker.services.estimates.slices import Slices
from tracker.services.evidence.measure import Measure, read_measure
from tracker.shapes import Accuracy
from tracker.words import BALANCED, STATES

_OUTCOMES = {
    "better": "{new} is better than {old}",
    "worse": "{new} is worse than {old}",
    "undecided": "nothing shows yet which of {new} and {old} is better",
}


def say_estimate(estimate: Estimate, measure: Measure) -> str:
    """Return a sentence with the measure, its counts and its interval."""
    if not estimate.labels:
        return f"{plain(estimate.name)} has no scored label yet; nothing is known."
    name, version = plain(estimate.name), plain(estimate.version or "")
    score = score_named(estimate, measure)
    classes = plural(len(estimate.classes), "class", "classes")
    mean = f"the mean of {classes}, with " if measure.kind == BALANCED else ""
    looks = ", however often one looks" if estimate.method == "anytime" else ""
    return (
        f"With {chosen(estimate.confidence_level)} confidence the "
        f"{plain(measure.name)} of {name}, version {version}, lies between "
        f"{_bounds(score.low, score.high)}{_say_since(estimate.span)}{looks}: {mean}"
        f"{score.correct:,} of {plural(score.labelled, 'prediction')} correct. "
        f"It rests on {estimate.basis}"
    )


def _say_since(span: Span | None) -> str:
    since = None if span is None else span.since
    return f" since {since:%-d %B %Y}" if since else ""


def explain(estimate: Estimate, plan: LabelPlan, measure: Measure) -> str:
    """Return the estimate, the verdict and the next labels in plain sentences."""
    said = [say_estimate(estimate, measure)]
    for one in estimate.classes:
        reading, basis = class_reading(one)
        said.append(f"{plain(one.name)}: {aloud(reading)}, {basis}.")
    if estimate.change is not None:
        said.append(plain(tell_change(estimate.change), limit=400))
    said.append(say_decision(estimate.decision, estimate.no_decision_because))
    if estimate.unclear or estimate.targeted_left_out:
        said.append(
            f"Left out: {plural(estimate.unclear, 'unclear label')} and "
            f"{plural(estimate.targeted_left_out, 'targeted label')}."
        )
    if estimate.weighted is not None:
        said.append(
            f"By the weights of {plural(estimate.weighted.labels, 'label')} it is "
            f"right about {100 * estimate.weighted.overall:.1f} % of the time: "
            f"{estimate.weighted.says}."
        )
    return " ".join([*said, say_plan(plan)])


def say_decision(decision: Decision | None, because: str | None) -> str:
    """Return the verdict on the target, and the labels that would decide it."""
    if decision is None:
        return f"There is no verdict: {because}."
    said = (
        f"The target of {chosen(decision.target)} is {STATES[decision.verdict].said}: "
        f"by the interval that holds at every look, the "
        f"{plain(read_measure(decision.measure).name)} lies between "
        f"{_bounds(decision.low, decision.high)}{_say_since(decision.span)}."
    )
    if decision.advice is not None:
        said += f" {decision.advice.text}"
    return said


def say_plan(plan: LabelPlan) -> str:
    """Return how many more labels the plan needs."""
    width = f"{100 * plan.width:g} points"
    if plan.for_balanced_width is None:
        said = f"No number of labels can be foreseen for an interval of {width}."
    elif plan.for_balanced_width == 0:
        said = f"The balanced interval is already at most {width} wide."
    else:
        more = plural(plan.for_balanced_width, "more label")
        said = f"With {more} the balanced interval is {width} wide."
    return f"{said} The next label is worth most of class {plain(plan.next.name)}."


def say_comparison(found: Comparison) -> str:
    """Return which of two versions is better, if that is proved."""
    names = {"new": plain(found.new), "old": plain(found.old)}
    if found.paired is None:
        return f"{names['new']} and {names['old']} have no labelled input in common."
    outcome = _OUTCOMES[found.verdict].format_map(names)
    said = (
        f"On {plural(found.paired.pairs, found.unit)} that both answered and that "
        f"were labelled at random, {outcome}."
    )
    decision = found.decision
    if decision is None:
        because = found.no_decision_because or "these inputs say nothing of the measure"
        return f"{said} {because[0].upper()}{because[1:]}."
    low, high = percents(decision.low, decision.high)
    said += (
        f" By the interval that holds at every look, the change of the "
        f"{plain(read_measure(decision.measure).name)} lies between {low} and {high} "
        f"points."
    )
    if decision.labels_to_decide:
        said += f" About {decision.labels_to_decide:,} more inputs would decide it."
    return said


def say_slices(found: Slices) -> str:
    """Return how many slices are worse than the rest, and the measure of all."""
    worse = len(found.find("worse"))
    are = "is" if worse == 1 else "are"
    reading, basis = class_reading(found.measured)
    measured = plain(read_measure(found.measure).name)
    if found.measure == BALANCED:
        measured += ", class by class"
    return (
        f"Of {plural(len(found.items), 'slice')} by {plain(found.by)}, {worse:,} {are} "
        f"worse than the rest by the {measured}; all together: {aloud(reading)}, "
        f"{basis}, by labels of its own queries, chosen at random; each {found.unit} "
        f"counts once."
    )


def _bounds(low: float, high: float) -> str:
    lower, upper = bounds(Accuracy(accuracy=None, low=low, high=high))
    return f"{lower} and {upper} %"
