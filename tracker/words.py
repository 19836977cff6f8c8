"""The vocabulary of the whole program: the words that are stored, sent and compared."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import WithJsonSchema

# A label that says that the question cannot be answered; it is never scored.
UNCLEAR = "UNCLEAR"
# A prediction that is none: a refusal, an abstention, an answer outside the classes.
# It is wrong for every label.
NO_ANSWER = "NO_ANSWER"
# The mean of the class accuracies, where a class could be named.
BALANCED = "balanced"

# The slice of queries whose metadata lack the key, and what finds them.
NO_VALUE = "(none)"

# Why a query was chosen for labelling.
SAMPLINGS = RANDOM, TARGETED, UNSTATED = ("random", "targeted", "unstated")
# What a label counts for; see services/evidence/standing.py.  The first three are the
# samplings of a query's own labels.  A replayed label was taken over from another
# version by its input.  The rest are shown and counted nowhere.
REPLAYED, REPLAYED_UNSTATED = ("replayed", "replayed_unstated")
REPEAT, GROUPED, OPEN = ("repeat", "grouped", "open")
# What came of a query that several people labelled.
AGREEMENTS = AGREED, MAJORITY, DISPUTED, SETTLED = (
    "agreed",
    "majority",
    "disputed",
    "settled",
)
# That of a label that takes back those of an import, and counts for nothing at all.
WITHDRAWN = "withdrawn"
STANDINGS = (
    *(*SAMPLINGS, REPLAYED, REPLAYED_UNSTATED, REPEAT, GROUPED, OPEN, DISPUTED),
    WITHDRAWN,
)
# Whether the groups of a detector's queries are counted, or are to be counted again.
COUNTED, STALE = ("counted", "stale")
# What a label judges: an input, whose queries share it, or the answer of one query.
INPUT, ANSWER = ("input", "answer")
# Which of several people's labels is scored: what most of them say, or the newest.
NEWEST = "newest"
# What happens to the bad rows of an import.
ON_ERROR = REJECT, SKIP = ("reject", "skip")

# The weakest first; each may do what those before it may.
ROLES = VIEWER, LABELER, EDITOR, ADMIN = ("viewer", "labeler", "editor", "admin")
# A key with this role logs and sees nothing; editors log, too.  No account has it.
LOGGER = "logger"
KEY_ROLES = (LOGGER, *ROLES)
# The roles that each role has.
HAS_ROLES: dict[str | None, set[str]] = {
    None: set(),
    LOGGER: {LOGGER},
    VIEWER: {VIEWER},
    LABELER: {VIEWER, LABELER},
    EDITOR: {VIEWER, LABELER, EDITOR, LOGGER},
    ADMIN: {VIEWER, LABELER, EDITOR, LOGGER, ADMIN},
}
ActorKind = Literal["account", "key", "command", "nobody"]

# Methods that intervals are stored by, and the one that a verdict goes by.
STORED_METHODS = EXACT, JOINT, ANYTIME = ("exact", "joint", "anytime")
DECIDING_METHOD = ANYTIME

# What is said of a class: how many of its queries are recognised, how many of its
# predictions are right, both in one number; and how many of all labels are right.
MEASURES = RECALL, PRECISION, OVERALL, F1 = ("recall", "precision", "overall", "f1")
# The mean of another measure than recall over the classes, where one could be named.
MACRO = "macro"

Verdict = Literal["met", "missed", "undecided"]


class StateWords(NamedTuple):
    """How a state of a detector, or an outcome, is said."""

    sign: str
    # In a list, alone, and behind "Target 90 %:" or "is".
    short: str
    full: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.sign} {self.short}".strip()


# The first that is true of a detector is said of it; the most urgent come first.
STATES = {
    "dropped": StateWords("↓", "Dropped", "Dropped"),
    "missed": StateWords("✕", "Missed", "Target missed", "missed"),
    "stale": StateWords("!", "Not updating", "Not updating"),
    "undecided": StateWords("↔", "Not decided", "Not decided yet", "not decided yet"),
    "no-verdict": StateWords("", "No verdict", "No verdict"),
    "open": StateWords("○", "Not measured", "Not measured"),
    "met": StateWords("✓", "Met", "Target met", "met"),
    "none": StateWords("", "No target", "No target"),
}
OUTCOMES = STATES | {
    "better": StateWords("✓", "Better", "Better", "better"),
    "worse": StateWords("↓", "Worse", "Worse", "worse"),
    "rose": StateWords("↑", "Rose", "Rose"),
}

# The events of proved changes, by their direction.
CHANGE_EVENTS = {"dropped": "accuracy.dropped", "rose": "accuracy.rose"}

# What may be told, each with a sentence that its data fills in.
EVENTS = {
    "verdict.changed": "{name}, version {version}: {verdict} after {labels}{was}.",
    "accuracy.dropped": "{name}, version {version}: {changed}.",
    "accuracy.rose": "{name}, version {version}: {changed}.",
    "slice.worse": "{name}: a slice of its queries is worse than the rest.",
    "labels.stalled": "{name}: no label for {hours}.",
    "detector.failing": "{name}: its intervals cannot be recomputed.",
    "audit.finished": "{name}: the audit {audit} is finished.",
    "audit.below_target": "{name}: the audit {audit} proves that the {measured} was "
    "below its target.",
    "audit.waiting": "{name}: the audit {audit} waits for about {labels}.",
    "version.first_seen": "{name}: version {version} was seen for the first time.",
    "import.failed": "{name}: the import {id} failed.",
}
# The population of an audit: the set of queries that it is about.
AUDITED = "set"
# The figures behind what was told, where there are some.
EVENT_FIGURES = {
    "verdict.changed": "{sentence} It rests on {basis}",
    "accuracy.dropped": "{more}{sentence} It rests on {basis}",
    "accuracy.rose": "{more}{sentence} It rests on {basis}",
    "slice.worse": "In version {version}, where {by} is {value}, the {measured} is "
    "{correct:,} of {labelled:,} labels of its own queries; each {unit} counts once.",
    "import.failed": "The reason: {error}.",
    "audit.finished": "By {labels}{of_set}, {right}.",
    "audit.below_target": "By {labels}{of_set}, {right}; the target is {target} %.",
}
# Who judges without authority; what they say is never the truth.
JudgeKind = Literal["human", "model", "code"]
HUMAN: Final = "human"
MODEL: Final = "model"
CODE: Final = "code"
JUDGE_KINDS = HUMAN, MODEL, CODE

TEST_EVENT = "webhook.test"
# How the body of a webhook looks.
FORMATS = STANDARD, SLACK, TEAMS = ("standard", "slack", "teams")


def one_of(words: Iterable[str]) -> WithJsonSchema:
    """Return the schema of a text that is one of *words*, as OpenAPI shows it."""
    return WithJsonSchema({"type": "string", "enum": list(words)})


# Of answers, whose values come from the database or from this program.
SamplingWord = Annotated[str, one_of(SAMPLINGS)]
AgreementWord = Annotated[str, one_of(AGREEMENTS)]
OnErrorWord = Annotated[str, one_of(ON_ERROR)]
MeasureWord = Annotated[str, one_of(MEASURES)]
EventWord = Annotated[str, one_of(EVENTS)]
