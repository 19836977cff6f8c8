"""Which labels a verdict waits for: the class that is needed most, and its price."""

import math

from pydantic import Field

from tracker import stats
from tracker.services.evidence.measure import Confusion, Measure
from tracker.shapes import Shape
from tracker.words import BALANCED, PRECISION, RECALL

# A forecast is of one made-up audit, and a smaller saving may be none.
_SAVING = 0.9


class Advice(Shape):
    """The labels that would decide, if accuracies and shares stay as they are."""

    name: str | None = Field(
        serialization_alias="class",
        description="The class that is needed most; null where labels of any class "
        "count.",
    )
    predicted: str | None = Field(
        default=None,
        description="Of a precision: the prediction whose labels are needed.",
    )
    labels: int | None = Field(
        description="About how many more of these labels decide, with the others that "
        "come along; null while the class has no label."
    )
    share: float | None = Field(
        description="Their part of the labels so far; null without one."
    )
    random_queries: int | None = Field(
        description="About how many queries drawn at random bring so many, at this "
        "share: `labels_to_decide`."
    )
    audit_labels: int | None = Field(
        default=None,
        description="About how many labels an audit would take, by its forecast; null "
        "where none was made: in estimates and gates by API, for more than 100,000 "
        "queries or 20 classes, and where every query has a label.",
    )
    text: str = Field(description="The advice in plain words.")

    @property
    def audit_saves(self) -> bool:
        """Whether an audit is forecast to take less than nine tenths of the labels."""
        return (
            self.audit_labels is not None
            and self.random_queries is not None
            and self.audit_labels < _SAVING * self.random_queries
        )

    def with_audit(self, labels: int) -> "Advice":
        """Return the advice with the price in an audit."""
        found = self.model_copy(update={"audit_labels": labels})
        said = "An audit would save nothing."
        if not labels:
            said = "An audit of the queries logged so far would need no label more."
        elif found.audit_saves:
            said = f"An audit would take about {labels:,} labels."
        return found.model_copy(update={"text": f"{self.text} {said}"})


def advise(
    measure: Measure, confusion: Confusion, at_random: int | None
) -> Advice | None:
    """Return which labels decide *measure*, if *at_random* more of any class would.

    It is the class whose label takes most off the doubt.  Nobody can order labels of a
    class: they come as often as the class does.
    """
    right, counted = measure.count_right(confusion)
    place = stats.next_class(right, counted)
    name = measure.of if measure.kind == RECALL else None
    if measure.kind == BALANCED:
        name = [*confusion][place]
    if not counted[place] and name is not None:
        first = f"Labels of {name} are needed first."
        return Advice(
            name=name, labels=None, share=None, random_queries=None, text=first
        )
    if at_random is None:
        return None
    share = counted[place] / sum(sum(row.values()) for row in confusion.values())
    predicted = measure.of if measure.kind == PRECISION else None
    what = name or (predicted and f"queries predicted as {predicted}")
    more = math.ceil(at_random * share)
    return Advice(
        name=name,
        predicted=predicted,
        labels=more,
        share=share,
        random_queries=at_random,
        text=_say(more, what, share, at_random),
    )


def _say(more: int, what: str | None, share: float, at_random: int) -> str:
    drawn = f"{at_random:,}"
    if what is None:
        return f"About {drawn} more labels of queries drawn at random would decide it."
    labels = f"{more:,} more label{'' if more == 1 else 's'}"
    return (
        f"About {labels} of {what} would decide it. At {100 * share:.2g} % of all "
        f"labels, that takes about {drawn} queries drawn at random."
    )
