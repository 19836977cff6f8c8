"""Which column of a file holds which field, by what people call them."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tracker.errors import FieldError
from tracker.services.imports.reading.choices import METADATA, REFUSE, Choices
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.rows import (
    FIELDS,
    IMAGE,
    refuse_columns,
    unknown_columns,
)
from tracker.services.imports.reading.shapes import known_columns
from tracker.services.wording import show, show_name

# Beside its own name.
_ALIASES = {
    "key": "id",
    "predicted": "pred y_pred prediction predictions predicted_label predicted_class "
    "guess output",
    "label": "y_true y_test target targets truth true_label true_class ground_truth "
    "actual choice expected gold",
    "confidence": "proba prob probability score",
    "group": "group_id event_id burst_id session_id conversation_id",
    "version": "model_version",
    "asked_at": "timestamp time created_at",
    "labelled_at": "labeled_at",
}
KNOWN = {name: name for name in FIELDS} | {
    alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()
}
# What a label without a prediction or a key is of, the column that comes first.
_INPUTS = frozenset(
    (
        *("text", "question", "prompt", "sentence", "document", "filename"),
        *("file_name", "file", "path", "image", "image_path", "image_url", "url"),
    )
)
_HEAD = re.compile(r"[^.\[]+")
_REPEATS = frozenset({"epoch", "attempt", "trial", "repeat", "sample_idx"})
_BLANKS = re.compile(r"[\s\-]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_TRUTHS = frozenset(
    (
        *("truth", "gold", "golden", "expected", "reference", "target", "actual"),
        *("annotation", "label", "correct", "answer"),
    )
)
_WEIGHTS = frozenset({"weight", "weights"})
# How pandas and Arrow write an index that has no name.
_UNNAMED = re.compile(r"\s*|unnamed:_\d+|__index_level_\d+__")
# One row of an annotation, as Label Studio writes it into CSV.
_LABEL_STUDIO = {"annotation_id", "annotator", "lead_time"}
_BOOKKEEPING = _LABEL_STUDIO | {"updated_at"}
# What Tracker's own export of labels says beside the fields.
_IS_CURRENT = "is_current"
_EXPORTED = {"query", _IS_CURRENT, "is_repeat"}
_MAYBE_EXPORTED = {"tags", "is_grouped"}


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each field is to be found, and what becomes of the other columns."""

    fields: dict[str, str] = field(default_factory=dict)
    # Into the metadata.
    extras: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    # Says which labels of an export were replaced by another one.
    is_current: str | None = None

    def warnings(self) -> list[str]:
        """Return what is said loudly of columns that are not read."""
        found = []
        others = (*self.extras, *self.left_out)
        if "label" not in self.fields:
            found += [
                f"the column {show(name)} looks like the truth and is not read as "
                f"labels; to read it, add map label={show_name(name)}"
                for name in others
                if _words_of(name) & _TRUTHS
            ]
        found += [
            f"the column {show(name)} looks like weights, which are not read: every "
            "label counts once"
            for name in others
            if _words_of(name) & _WEIGHTS
        ]
        return found

    def renamed(self) -> dict[str, str]:
        """Return the fields whose column has another name."""
        return {
            name: column
            for name, column in self.fields.items()
            if normal(column) != name
        }


def _words_of(name: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(name)}


def normal(name: str) -> str:
    """Return *name* without case, and with one sign for blanks and dashes."""
    return _BLANKS.sub("_", name.strip()).casefold()


def guess_field(name: str) -> str | None:
    """Return the field that a column of that *name* holds, if it is well known."""
    return KNOWN.get(normal(name))


def plan_columns(
    names: Sequence[str], choices: Choices, *, has_header: bool = True
) -> Plan:
    """Decide what the columns *names* hold.

    Raises InvalidInputError that says all that is wrong: two columns that could be
    one field, and columns that are not known where these are refused.  Without a
    header each row answers for its own names, and unknown ones are only noted.
    """
    wrong: list[FieldError] = []
    has_images = choices.images is not None
    known, is_shaped = _known(names, choices)
    # The other columns of a tool's own file are known ones.
    extra = choices.extra or (METADATA if is_shaped else choices.usual_extra)
    known |= {IMAGE: IMAGE} if has_images else {}
    fields = dict(_chosen(names, choices, wrong))
    if IMAGE in fields and not has_images:
        wrong.append(FieldError("map", "there are no images beside the file"))
    taken = {head_of(column, names) for column in fields.values()}
    left_out = tuple(
        name
        for name in dict.fromkeys(names)
        if name not in taken and (_is_unnamed(name) or known.get(normal(name)) == "")
    )
    free = [name for name in names if name not in taken and name not in left_out]
    settled = fields.keys() | choices.given.keys()
    for found in [one for one in (*FIELDS, IMAGE) if one not in settled]:
        candidates = [name for name in free if known.get(normal(name)) == found]
        if len(candidates) > 1:
            wrong.append(_ambiguous(found, candidates))
        if candidates:
            fields[found] = candidates[0]
            taken.update(candidates)
    others = [name for name in free if name not in taken]
    _find_input(fields, others)
    if extra == METADATA and "predicted" not in fields:
        # Labels of queries that are known already, whose metadata stays as it is.
        left_out += tuple(dict.fromkeys(others))
        others = []
    wrong += [
        FieldError(show_name(name), "occurs twice among the columns")
        for name, count in Counter(others).items()
        if count > 1
    ]
    if has_header and extra == REFUSE:
        wrong += unknown_columns(others, FIELDS)
    if wrong:
        refuse_columns(wrong)
    return Plan(
        fields,
        tuple(others) if extra == METADATA else (),
        frozenset(others) if extra == REFUSE else frozenset(),
        left_out,
        next((one for one in left_out if normal(one) == _IS_CURRENT), None),
    )


def _known(names: Sequence[str], choices: Choices) -> tuple[dict[str, str], bool]:
    """Return the field of each column that is known, and if a tool's shape says so."""
    shaped = known_columns(names, SHAPES)
    if shaped is not None:
        return {normal(column): name for column, name in shaped.items()}, True
    found = KNOWN | _label_studio(names) | _exported(names)
    normals = set(map(normal, names))
    if "key" not in normals and normals & _REPEATS:
        # A question that is asked several times.
        found["id"] = "group"
    elif not normals & {"key", "input"} and "version" in choices.given:
        # Each version answers the same test set, whose ids stand for the inputs.
        found["id"] = "input"
    return found, False


def head_of(column: str, names: Collection[str]) -> str:
    """Return the column that a path begins with, itself for what is a column."""
    head = _HEAD.match(column)
    return column if column in names or head is None else head[0]


def _find_input(fields: dict[str, str], others: list[str]) -> None:
    """Take one of *others* for the input, where nothing else says what is labelled."""
    if fields.keys() & {"predicted", "key", "input", "label"} == {"label"}:
        for name in [one for one in others if normal(one) in _INPUTS][:1]:
            fields["input"] = name
            others.remove(name)


def _exported(names: Sequence[str]) -> dict[str, str]:
    """Return that an export's own columns are bookkeeping, where all are there."""
    found = set(map(normal, names)) >= _EXPORTED
    return dict.fromkeys(_EXPORTED | _MAYBE_EXPORTED, "") if found else {}


def _is_unnamed(name: str) -> bool:
    return _UNNAMED.fullmatch(normal(name)) is not None


def _label_studio(names: Sequence[str]) -> dict[str, str]:
    """Return what the columns of Label Studio's own say, "" for its bookkeeping."""
    normals = set(map(normal, names))
    if not normals >= _LABEL_STUDIO:
        return {}
    return {
        **dict.fromkeys(_BOOKKEEPING, ""),
        "annotator": "labeler",
        "created_at": "labelled_at",
        # The number of the task, unless the task has a key of its own.
        **({"id": ""} if "key" in normals else {}),
    }


def _chosen(
    names: Sequence[str], choices: Choices, wrong: list[FieldError]
) -> Iterable[tuple[str, str]]:
    for name, column in choices.remembered.items():
        # It was said of other files, and this one may be another kind of file.
        if names.count(column) == 1 and column not in choices.columns.values():
            yield name, column
    for name, column in choices.columns.items():
        alike = [one for one in names if normal(one) == normal(column)]
        found = column if column in names else alike[0] if len(alike) == 1 else None
        if found is None and head_of(column, names) in names:
            found = column
        if found is None:
            shown = ", ".join(map(show, names[:50]))
            message = f"there is no column {show(column)}; there are: {shown}"
            wrong.append(FieldError("map", message))
        elif names.count(found) > 1:
            message = f"the column {show(column)} occurs twice"
            wrong.append(FieldError("map", message))
        else:
            yield name, found


def _ambiguous(name: str, candidates: Sequence[str]) -> FieldError:
    if len(set(map(normal, candidates))) == 1:
        return FieldError(name, "occurs twice among the columns")
    shown = " and ".join(map(show, candidates))
    return FieldError(
        name,
        f"the columns {shown} could both hold it; choose one, as in "
        f"map {name}={show_name(candidates[0])}",
    )
