"""The shapes of what the API answers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from tracker.services.fields import Instant

Address = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]


class Shape(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DetectorVersion(Shape):
    """One trained state of a detector."""

    name: str
    created_at: Instant = Field(description="When the first query of it arrived.")


class Detector(Shape):
    """A classifier under measurement."""

    id: str = Field(description="det_ and a number.")
    name: str
    question: str
    classes: list[str]
    confidence_level: float
    target: float | None = Field(description="The balanced accuracy that is aimed at.")
    audit_rate: float = Field(
        description="Which share of the queries is offered to be labelled at random."
    )
    labels_wanted: int = Field(
        description="How many different people are to label each query."
    )
    created_at: Instant
    archived_at: Instant | None
    versions: list[DetectorVersion] = Field(description="In the order they arrived.")


class DetectorPage(Shape):
    """A page of detectors, the oldest first."""

    items: list[Detector]
    next: Address | None = Field(description="The address of the page after this one.")


class Query(Shape):
    """One input put to a detector, and what the detector said of it."""

    id: str = Field(description="iq_ and a number.")
    detector: str = Field(description="The id of the detector.")
    key: str | None = Field(description="The caller's own id.")
    input: str | None = Field(description="What was put in.")
    predicted: str
    confidence: float | None
    version: str
    asked_at: Instant
    created_at: Instant
    metadata: dict[str, Any] | None
    image_url: str | None
    image: Address | None = Field(description="The address of the stored image.")
    label: str | None = Field(description="The current label, a class or UNCLEAR.")
    sampling: str = Field(description="Why it was chosen for labelling.")
    agreement: str | None = Field(
        description="Where several people labelled it: agreed, disputed or settled."
    )


class QueryPage(Shape):
    """A page of queries, the newest first."""

    items: list[Query]
    next: Address | None = Field(description="The address of the page after this one.")


class NextQuery(Shape):
    """A query to be labelled, without anything that was said of it."""

    id: str = Field(description="iq_ and a number.")
    detector: str = Field(description="The id of the detector.")
    question: str
    classes: list[str] = Field(description="The label is one of them, or UNCLEAR.")
    key: str | None = Field(description="The caller's own id.")
    input: str | None = Field(description="What was put in.")
    asked_at: Instant
    metadata: dict[str, Any] | None
    image_url: str | None
    image: Address | None = Field(description="The address of the stored image.")
    sampling: str = Field(description="Send it with the label: how it was chosen.")
    reserved_until: Instant = Field(description="Until then nobody else is given it.")


class Label(Shape):
    """The ground truth that somebody gave to a query."""

    id: str = Field(description="lab_ and a number.")
    query: str = Field(description="The id of the query.")
    label: str = Field(description="A class of the detector, or UNCLEAR.")
    sampling: str
    note: str | None
    labeler: str
    labelled_at: Instant
    created_at: Instant
    is_current: bool = Field(description="False once another label has replaced it.")


class LabelPage(Shape):
    """A page of the labels of one query, the current one first."""

    items: list[Label]
    next: Address | None = Field(description="The address of the page after this one.")


class ClassEstimate(Shape):
    """The accuracy of one class: correct / labelled, and its interval."""

    name: str = Field(serialization_alias="class")
    correct: int
    labelled: int
    accuracy: float | None = Field(description="null without a label of this class.")
    low: float
    high: float


class BalancedEstimate(Shape):
    """The mean of the accuracies of the classes, and its interval."""

    accuracy: float | None = Field(description="null while a class has no label.")
    low: float
    high: float


class Decision(Shape):
    """Whether the target is met, by the interval that may be looked at at any time."""

    verdict: str = Field(description="met, missed or undecided.")
    target: float
    method: str
    low: float
    high: float


class Estimate(Shape):
    """How accurate one version of a detector is, and how sure that is."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    version: str | None = Field(
        description="* for all versions pooled; null before the first query."
    )
    computed_at: Instant
    confidence_level: float
    method: str
    labels: int = Field(description="Scored labels.")
    unclear: int = Field(description="Labels UNCLEAR, which are never scored.")
    targeted_left_out: int = Field(description="Targeted labels that are not scored.")
    includes_targeted: bool
    classes: list[ClassEstimate]
    balanced: BalancedEstimate
    confusion: dict[str, dict[str, int]] = Field(
        description="confusion[label][predicted]; cells without a label are left out."
    )
    decision: Decision | None = Field(
        description="null without a target or labels, and for a window of time."
    )


class HistoryRow(Shape):
    """One row of a snapshot: a class, or the balanced accuracy."""

    computed_at: Instant
    detector: str = Field(description="The name of the detector.")
    version: str
    labels: int
    scope: str = Field(description="A class, or balanced.")
    correct: int
    labelled: int
    accuracy: float | None
    low: float
    high: float
    confidence_level: float
    method: str


class HistoryPage(Shape):
    """Rows of the history in order; a snapshot is never torn apart."""

    items: list[HistoryRow]
    next: Address | None = Field(description="The address of the page after this one.")


class RowProblem(Shape):
    """One thing wrong with one row of an import."""

    row: int = Field(description="Counted from 1, without a header.")
    field: str
    message: str


class ImportReport(Shape):
    """What an import did."""

    queries_added: int
    labels_added: int
    unchanged: int
    bad_rows: int = Field(description="How many rows were skipped.")
    errors: list[RowProblem] = Field(description="Of the skipped rows, at most 1,000.")


class Import(Shape):
    """An import that a worker carries out, and how far it is."""

    id: str = Field(description="imp_ and a number.")
    detector: str = Field(description="The id of the detector.")
    state: str = Field(
        description="waiting, running, done, rejected (the file is wrong) or failed; "
        "only after done was anything written."
    )
    on_error: str = Field(description="reject or skip.")
    rows_read: int = Field(description="So far, about once a second.")
    bytes: int = Field(description="How large the file is.")
    bytes_read: int = Field(description="So far, about once a second.")
    created_at: Instant = Field(description="When the file had arrived.")
    started_at: Instant | None = Field(description="When a worker last took it up.")
    finished_at: Instant | None
    report: ImportReport | None = Field(
        description="Once it is done, or rejected for its rows."
    )
    error: str | None = Field(description="Why it was rejected or failed.")


class ImportPage(Shape):
    """A page of imports, the newest first."""

    items: list[Import]
    next: Address | None = Field(description="The address of the page after this one.")


class Study(Shape):
    """A resampling study: an experiment that trained a detector many times."""

    id: str = Field(description="stu_ and a number.")
    detector: str = Field(description="The id of the detector.")
    name: str
    kind: str = Field(description="bootstrap or seeds.")
    version: str | None
    note: str | None
    rounds: int = Field(description="How many there are.")
    added_by: str
    created_at: Instant


class StudyPage(Shape):
    """A page of studies, the newest first."""

    items: list[Study]
    next: Address | None = Field(description="The address of the page after this one.")


class StudyInterval(Shape):
    """The mean accuracy of the rounds by one method, and its interval."""

    method: str = Field(
        description="bootstrap-t, percentile, 632 or 632+; of seeds, seeds-t."
    )
    accuracy: float
    low: float
    high: float
    is_guaranteed: bool = Field(description="Always false: it is an approximation.")
    meaning: str = Field(description="What it covers, and what it does not.")


class StudyReport(Study):
    """A study with the interval of every method that its rounds allow."""

    confidence_level: float
    intervals: list[StudyInterval]


class FieldProblem(Shape):
    """One thing wrong with the input."""

    row: int = Field(default=0, description="Of many, counted from 1.")
    field: str
    message: str = Field(description="What was received, and what would be right.")


class Problem(Shape):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] = Field(default=[], description="Where input was wrong.")
