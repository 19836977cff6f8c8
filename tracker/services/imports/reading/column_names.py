"""Guess the field of each column from its name."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tracker.errors import FieldError
from tracker.services.imports.reading import rows
from tracker.services.imports.reading.choices import METADATA, REFUSE, Choices
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.shapes import LONGEST_NAME, Shape
from tracker.services.wording import show, show_name

# Beside its own name.
_ALIASES = {
    "key": "id",
    "predicted": "pred y_pred ypred prediction predictions predicted_label "
    "predicted_class guess output",
    "label": "y_true ytrue y_test target targets truth true_label true_class "
    "ground_truth actual choice expected gold",
    "confidence": "proba prob probability score",
    "group": "group_id event_id burst_id session_id conversation_id",
    "version": "model_version",
    "asked_at": "timestamp time created_at",
    "labelled_at": "labeled_at",
}
KNOWN = {name: name for name in rows.FIELDS} | {
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
# Where several people label the same items: who, and what.
_PEOPLE = ("annotator", "annotator_id", "rater", "rater_id", "worker_id", "coder")
_ITEMS = ("item_id", "item", "sample_id", "example_id", "task_id", "image_id")
_REPEATS = frozenset({"epoch", "attempt", "trial", "repeat", "sample_idx"})
_BLANKS = re.compile(r"[\s\-]+")
_WORD = re.compile(r"[^\W\d_]+?(?=[A-Z][a-z]|[\W\d_]|$)")
# What the words of a name say of it where its whole is not known; the first that fits.
_ROLES = (
    (
        "",
        "id ids is has ts at by time date count version comment reason explanation url "
        "tags cost tokens latency error",
    ),
    (
        "confidence",
        "proba probas prob probs probability probabilities score scores confidence "
        "logprob konfidenz sicherheit",
    ),
    (
        "label",
        "true truth gold golden gt expected reference target actual ideal annotation "
        "correct wahrheit",
    ),
    (
        "predicted",
        "pred preds predicted prediction predictions guess output outputs scored "
        "completion hypothesis response generated vorhersage prognose model hat yhat "
        "auto automatic",
    ),
    # Behind those that say more: a predicted label is none.
    ("label", "label labels annotated soll ist tats\u00e4chlich tatsaechlich"),
)
_WORDS = tuple((role, frozenset(words.split())) for role, words in _ROLES)
# A probability may belong to one class, and scores to a metric.
_OF_A_CLASS = frozenset(_ROLES[1][1].split()[:6])
_NOT_CONFIDENCE = _OF_A_CLASS | {"scores"}
# Names that say no more than that classes are in the column.
_PLAIN = frozenset({"class", "category", "classification", "answer", "species"})
_LOUD = frozenset(
    f"{_ROLES[2][1]} {_ROLES[4][1]} answer human manual reviewer inspector operator "
    "expert".split()
)
# What the answers of programs are called, where people answered too.
_PROGRAMS = frozenset(
    ("ai", "ki", "model", "system", "classifier", "detector", "machine", "llm", "bot")
)
# Of two such columns the second is the answer, and the first what it should have been.
_PAIRS = {"expected": "actual", "soll": "ist"}
_WEIGHTS = frozenset({"weight", "weights"})
# Of so many columns it is looked for two that could be the label and the prediction.
_FEW_COLUMNS = 20
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
    """The column of each field, and how the other columns are treated."""

    fields: dict[str, str] = field(default_factory=dict)
    # Into the metadata, and the place of each among them.
    extras: Mapping[str, int] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    # Says which labels of an export were replaced by another one.
    is_current: str | None = None
    # What holds classes, where nothing says which is the label or the prediction.
    unclear: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """Return the warnings about columns that are not read."""
        found = []
        others = (*self.extras, *self.left_out)
        if self.unclear:
            said = " and ".join(f"map {n}={c}" for n, c in self.proposed().items())
            shown = " and ".join(self.unclear)
            if self.fields.keys() & {"label", "predicted"}:
                [field] = self.proposed()
                found.append(
                    f"classes are also in {shown}, not read; if that is the "
                    f"{'prediction' if field == 'predicted' else field}, add {said}"
                )
            else:
                found.append(
                    f"nothing says which of the columns {shown} is which; say it, as "
                    f"in {said}"
                )
        if "label" not in self.fields:
            found += [
                f"the column {show(name)} looks like the truth and is not read as "
                f"labels; to read it, add --map label={show_name(name)}"
                for name in others
                if _words_of(name) & _LOUD
                and "is" not in _words_of(name)
                and name not in self.unclear
            ]
        found += [
            f"the column {show(name)} looks like weights, which are not read: every "
            f"label counts once; to read them, add --map weight={show_name(name)}"
            for name in others
            if _words_of(name) & _WEIGHTS
        ]
        if self.fields.keys() & {"weight", rows.PROBABILITY}:
            found.append(
                "labels with a weight count as targeted, unless they say how they were "
                "chosen: what they come to is a ratio, without an interval; if the "
                "column is something else, such as a mass, give it another name"
            )
        return found

    def proposed(self) -> dict[str, str]:
        missing = [one for one in ("label", "predicted") if one not in self.fields]
        return dict(zip(missing, self.unclear, strict=False))

    def is_likely(self) -> bool:
        """Whether the words of the names tell what is proposed apart."""
        if self.fields.keys() & {"label", "predicted"}:
            return len(self.unclear) == 1
        first, last = _truth_first(self.unclear[0]), _truth_first(self.unclear[-1])
        return first < last

    def renamed(self) -> dict[str, str]:
        return {
            name: column
            for name, column in self.fields.items()
            if normal(column) != name
        }


def _words_of(name: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(name)}


@lru_cache(maxsize=rows.MOST_COLUMNS)
def role_of(name: str) -> str | None:
    """Return the field that a column of that *name* may hold, by its words."""
    known = known_field(name)
    if known is not None:
        return known
    if normal(name) in _PLAIN:
        return "label"
    words = _words_of(name)
    return next((role for role, said in _WORDS if words & said), None) or None


def find_header(lines: Sequence[Sequence[Any]]) -> int:
    """Return which of the first *lines* of a table names the columns.

    It is the first one, unless titles stand above.
    """
    filled = [[str(one) for one in line if one not in {None, ""}] for line in lines]
    known = [sum(bool(role_of(one)) for one in line) for line in filled]
    if not known[0] and max(known) > 1:
        return known.index(max(known))
    counts = list(map(len, filled))
    return counts.index(max(counts)) if counts[0] == 1 else 0


def is_percentage(name: str) -> bool:
    return "%" in name or bool(_words_of(name) & {"percent", "percentage", "pct"})


def is_of_classes(name: str) -> bool:
    return bool(_words_of(name) & _OF_A_CLASS)


@lru_cache(maxsize=rows.MOST_COLUMNS)
def normal(name: str) -> str:
    """Return *name* without case, and with one sign for blanks and dashes."""
    return _BLANKS.sub("_", name.strip()).casefold()


def known_field(name: str) -> str | None:
    return KNOWN.get(normal(name))


def _find_needless(
    names: Sequence[str], taken: Set[str], known: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the columns without a name, and those known to say nothing of a query."""
    return tuple(
        name
        for name in dict.fromkeys(names)
        if name not in taken
        and (known.get(normal(name)) == "" or _UNNAMED.fullmatch(normal(name)))
    )


def guess_columns(
    names: Sequence[str],
    choices: Choices,
    *,
    has_header: bool = True,
    holds_classes: Callable[[str], bool] = lambda _: False,
    knows_classes: bool = True,
) -> Plan:
    """Decide what the columns *names* hold.

    What is known by some words of its name alone is taken for a class only if it
    *holds_classes*.

    Raises InvalidInputError that says all that is wrong: two columns that could be
    one field, and columns that are not known where these are refused.  Without a
    header each row answers for its own names, and unknown ones are only noted.
    """
    wrong: list[FieldError] = []
    whole = find_whole(names, has_header=has_header)
    known, is_shaped = _known(names, choices, whole)
    # The other columns of a tool's own file are known ones.
    extra = choices.extra or (METADATA if is_shaped else choices.usual_extra)
    fields = _find_judges(names, wrong) | dict(_chosen(names, choices, wrong))
    if choices.images is not None:
        known |= {rows.IMAGE: rows.IMAGE}
    elif rows.IMAGE in fields:
        wrong.append(FieldError("map", "there are no images beside the file"))
    taken = {head_of(column, names) for column in fields.values()}
    left_out = _find_needless(names, taken, known)
    free = [name for name in names if name not in taken and name not in left_out]
    settled = fields.keys() | choices.given.keys()
    others = _find_known(fields, free, known, settled, wrong)
    if not (is_shaped or _are_numbered(names)):
        _find_by_words(fields, others, settled, holds_classes)
    _find_input(fields, others, choices.given, extra)
    may_ask = knows_classes or not fields.keys() & {"label", "predicted"}
    asked = others if may_ask and not (is_shaped and whole) else []
    unclear = _find_unclear(fields, asked, holds_classes)
    if extra == METADATA and "predicted" not in fields:
        # Labels of queries that are known already, whose metadata stays as it is.
        left_out, others = (*left_out, *dict.fromkeys(others)), []
    wrong += [
        FieldError(show_name(name), "occurs twice among the columns")
        for name, count in Counter(others).items()
        if count > 1
    ]
    if has_header and extra == REFUSE:
        wrong += rows.unknown_columns(others, rows.FIELDS)
    wrong += _find_nameless(names, fields, unclear)
    if wrong:
        rows.refuse_columns(wrong)
    return Plan(
        fields,
        {one: place for place, one in enumerate(others if extra == METADATA else ())},
        frozenset(others) if extra == REFUSE else frozenset(),
        left_out,
        next((one for one in left_out if normal(one) == _IS_CURRENT), None),
        unclear,
    )


def find_whole(names: Iterable[str], *, has_header: bool = True) -> Shape | None:
    """Return the shape that a table is of as a whole; its header names all columns."""
    columns = [name for name in names if not _UNNAMED.fullmatch(normal(name))]
    shapes = (one for one in SHAPES if has_header and one.others is not None)
    return next((one for one in shapes if one.holds(columns)), None)


def _known(
    names: Sequence[str], choices: Choices, whole: Shape | None
) -> tuple[dict[str, str], bool]:
    found = dict(KNOWN)
    tables = (one for one in SHAPES if one.others is None and one.holds(names))
    shape = next(tables, whole)
    if shape is not None:
        if shape.unclear and not {"predicted", "label"} & {
            *(*choices.columns, *choices.remembered),
        }:
            rows.refuse_columns([FieldError("map", shape.unclear)])
        # Each version answers the same test set.
        is_run = "version" in choices.given and shape is whole
        own = {
            normal(column): "input" if is_run and name == "key" else name
            for name, columns in shape.fields.items()
            if isinstance(columns, str)
            for column in columns.split(" | ")
            if column in names
        }
        # An id beside the outcome is that of the resampling.
        del found["id"]
        return (found | own, False) if shape.own else (own, True)
    normals = set(map(normal, names))
    if normals >= _LABEL_STUDIO:
        found |= dict.fromkeys(_BOOKKEEPING, "")
        found |= {"annotator": "labeler", "created_at": "labelled_at"}
        if "key" in normals:
            # It is the number of the task.
            found["id"] = ""
    if normals >= _EXPORTED:
        found |= dict.fromkeys(_EXPORTED | _MAYBE_EXPORTED, "")
    person = next((one for one in _PEOPLE if one in normals), None)
    item = next((one for one in ("key", "id", *_ITEMS) if one in normals), None)
    if person and item and "labeler" not in normals:
        found = {**found, person: "labeler", item: found.get(item, "key")}
    if "key" not in normals and normals & _REPEATS:
        # A question that is asked several times.
        found["id"] = "group"
    elif not normals & {"key", "input"} and "version" in choices.given:
        # Each version answers the same test set, whose ids stand for the inputs.
        found["id"] = "input"
    return found, False


def head_of(column: str, names: Collection[str]) -> str:
    head = _HEAD.match(column)
    return column if column in names or head is None else head[0]


def _are_numbered(names: Sequence[str]) -> bool:
    return names[:1] == [f"{rows.COLUMN}1"]


def _find_nameless(
    names: Sequence[str], fields: Collection[str], unclear: Sequence[str]
) -> list[FieldError]:
    if not _are_numbered(names) or {"predicted", "label"} & set(fields):
        return []
    message = (
        f"the first line names no columns; say what those from {names[0]} to "
        f"{names[-1]} hold, as in map predicted={(*unclear, names[-1])[0]}"
    )
    if unclear:
        message += f" and map label={unclear[-1]}"
    return [FieldError("map", message)]


def _find_judges(names: Sequence[str], wrong: list[FieldError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for column in names:
        if not column.strip().casefold().startswith(rows.JUDGE):
            continue
        judge = column.strip()[len(rows.JUDGE) :].strip()
        if not (0 < len(judge) <= LONGEST_NAME and judge.isprintable()):
            wrong.append(FieldError(show_name(column), "names no judge"))
        elif found.setdefault(rows.JUDGE + judge, column) != column:
            wrong.append(FieldError(show_name(column), "occurs twice"))
    return found


def _find_known(
    fields: dict[str, str],
    free: list[str],
    known: Mapping[str, str],
    settled: Collection[str],
    wrong: list[FieldError],
) -> list[str]:
    taken = set(fields.values())
    for found in [one for one in (*rows.FIELDS, rows.IMAGE) if one not in settled]:
        candidates = [name for name in free if known.get(normal(name)) == found]
        if found == "label" and "predicted" not in settled:
            candidates = _apart(fields, candidates)
        if len(set(map(normal, candidates))) > 1:
            shown = " and ".join(map(show, candidates))
            message = (
                f"the columns {shown} could both hold it; choose one, as in "
                f"map {found}={show_name(candidates[0])}"
            )
            wrong.append(FieldError(found, message))
        elif len(candidates) > 1:
            wrong.append(FieldError(found, "occurs twice among the columns"))
        if candidates:
            fields[found] = candidates[0]
            taken.update(candidates)
    return [name for name in free if name not in {*taken, *fields.values()}]


def _apart(fields: dict[str, str], candidates: list[str]) -> list[str]:
    """Take ``actual`` for the answer where ``expected`` is what it should have been."""
    by_name = {normal(name): name for name in candidates}
    for truth, answer in _PAIRS.items():
        if by_name.keys() == {truth, answer} and "predicted" not in fields:
            fields["predicted"] = by_name[answer]
            return [by_name[truth]]
    return candidates


def _find_by_words(
    fields: dict[str, str],
    others: list[str],
    settled: Set[str],
    holds_classes: Callable[[str], bool],
) -> None:
    is_said = fields.keys() & {"predicted", "key", *settled}
    called = normal(fields.get("label", ""))
    # The answers of a classifier, as many call them; other names are of the truth.
    if "confidence" in fields and not is_said and called in {"label", "choice"}:
        fields["predicted"] = fields.pop("label")
    for sought in ("predicted", "label", "confidence"):
        found = [one for one in others if role_of(one) == sought]
        if sought == "label" and normal(fields.get("predicted", "")).startswith("y"):
            found += [one for one in others if normal(one) == "y"]
        if sought != "confidence":
            found = [one for one in found if holds_classes(one)]
            if sought == "label" and not {"label", "predicted"} & settled:
                found = _apart(fields, found)
                others[:] = [one for one in others if one != fields.get("predicted")]
        elif "predicted" not in fields:
            continue
        else:
            found = [one for one in found if not _words_of(one) & _NOT_CONFIDENCE]
        if len(found) == 1 and sought not in {*fields, *settled}:
            fields[sought] = found[0]
            others.remove(found[0])
    if not {"label", "predicted"} & {*fields, *settled}:
        plain = [one for one in others if not role_of(one) and holds_classes(one)]
        if len(plain) == 1:
            fields["predicted" if "confidence" in fields else "label"] = plain[0]
            others.remove(plain[0])


def _find_input(
    fields: dict[str, str], others: list[str], given: Collection[str], extra: str
) -> None:
    """Take one of *others* for the input of labels alone, or of the answers of a run.

    A run keeps it in the metadata too, since a hash stands for a long one.
    """
    known = fields.keys() & {"predicted", "key", "input", "label"}
    if known == {"label"} or ("version" in given and known == {"predicted"}):
        for name in [one for one in others if normal(one) in _INPUTS][:1]:
            fields["input"] = name
            if "label" in known or extra != METADATA:
                others.remove(name)


def _find_unclear(
    fields: Mapping[str, str], others: list[str], holds_classes: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return columns that could be the label or the prediction, if one is missing.

    Labels of what is known by key or input need no prediction.
    """
    known = fields.keys() & {"label", "predicted", "key", "input"}
    # What has a confidence was answered, so labels of inputs alone cannot be meant.
    lacks_answer = "confidence" in fields and known_field(fields.get("label", ""))
    if lacks_answer:
        known -= {"input"}
    if known > {"label"} or len(others) > _FEW_COLUMNS:
        return ()
    found = sorted(filter(holds_classes, others), key=_truth_first)
    if "predicted" in known:
        found = [one for one in found if role_of(one) != "predicted"]
    elif not lacks_answer and len(found) != (1 if "label" in known else 2):
        return ()
    return tuple(found)


def _truth_first(name: str) -> int:
    words = _words_of(name)
    return bool(words & _PROGRAMS) - bool(words & _LOUD)


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
