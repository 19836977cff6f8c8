"""Estimates in plain sentences, with their counts and intervals."""

from tracker.charts.words import aloud, bounds, chosen, class_reading, plain, plural
from tracker.services.deciding.comparison import Comparison
from tracker.services.deciding.planning import LabelPlan
from tracker.services.estimates.measures import MeasuredEstimate, score_named
from tracker.services.estimates.report import tell_change
from tracker.services.estimates.slices import Slices
from tracker.services.evidence.measure import Measure, read_measure
from tracker.shapes import Accuracy
from tracker.words import BALANCED, DECIDING_METHOD

_OUTCOMES = {
    "better": "{new} is better than {old}",
    "worse": "{new} is worse than {old}",
    "undecided": "nothing shows yet which of {new} and {old} is better",
}


def say_estimate(found: MeasuredEstimate, measure: Measure) -> str:
    """Return the report's sentence with its counts; of another interval its bounds."""
    name, report = plain(found.name), plain(found.sentence, limit=500)
    if not found.labels:
        return f"{name}: {report or 'Not measured yet.'}"
    decides, score = found.method == DECIDING_METHOD, score_named(found, measure)
    level, of = f"{chosen(found.confidence_level)} confidence", plain(measure.name)
    looks = ", however often one looks" if decides else ""
    if report and decides:
        said = f"This is the {of} with {level}{looks}"
    else:
        lower, upper = bounds(Accuracy.from_row(score))
        since = found.span and found.span.since
        of += f" since {since:%-d %B %Y}" if since else ""
        said = f"With {level} the {of} lies between {lower} and {upper} %{looks}"
    classes = plural(len(found.classes), "class", "classes")
    mean = f"the mean of {classes}, with " if measure.kind == BALANCED else ""
    counts = f"{score.correct:,} of {plural(score.labelled, 'prediction')} correct"
    said += f": {mean}{counts}. It rests on {found.basis}"
    first = f"{name}, version {plain(found.version or '')}:"
    return " ".join(filter(None, (first, report, said)))


def explain(found: MeasuredEstimate, plan: LabelPlan, measure: Measure) -> str:
    """Return the estimate, the verdict and the next labels in plain sentences."""
    said = [say_estimate(found, measure)]
    for one in found.classes:
        reading, basis = class_reading(one)
        said.append(f"{plain(one.name)}: {aloud(reading)}, {basis}.")
    if found.change is not None:
        said.append(plain(tell_change(found.change, found.sentence), limit=400))
    if found.decision is not None and found.decision.advice is not None:
        said.append(found.decision.advice.text)
    if found.unclear or found.targeted_left_out:
        said.append(
            f"Left out: {plural(found.unclear, 'unclear label')} and "
            f"{plural(found.targeted_left_out, 'targeted label')}."
        )
    if found.weighted is not None:
        said.append(
            f"By the weights of {plural(found.weighted.labels, 'label')} it is "
            f"right about {100 * found.weighted.overall:.1f} % of the time: "
            f"{found.weighted.says}."
        )
    return " ".join([*said, say_plan(plan)])


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
    said += f" {plain(found.sentence, limit=500)} That holds at every look."
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
