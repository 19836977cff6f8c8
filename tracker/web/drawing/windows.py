"""The last labels of a detector beside all of them, in words."""

from tracker.charts.words import plural
from tracker.services.estimates.estimate import Estimate
from tracker.web.drawing.readings import Reading, count_classes, read_mean


def read_window(estimate: Estimate) -> Reading:
    """Return the balanced accuracy of a window as pages draw and say it."""
    return read_mean(estimate.whole, count_classes(estimate), name="Lately")


def describe_lately(
    whole: Reading, estimate: Estimate, last: Reading, window: Estimate
) -> str:
    """Say whether the accuracy lately is another than that of all labels."""
    if not window.labels:
        nothing = "Nothing is known yet: no label has been scored."
        return "No label is that new." if estimate.labels else nothing
    if window.labels >= estimate.labels:
        return f"No change seen in {plural(estimate.labels, 'label')}."
    of = f"the {plural(window.labels, 'label')} lately"
    if window.balanced.high < estimate.balanced.low:
        return f"Lower: {of} lie below the average of all labels."
    if window.balanced.low > estimate.balanced.high:
        return f"Higher: {of} lie above the average of all labels."
    if last.estimate is None or whole.estimate is None:
        return "Too few labels to compare."
    lately = f"last {plural(window.labels, 'label')} {last.estimate}"
    return f"No change seen: {lately}, all {whole.estimate}."
