"""The pieces of a file with its columns named and its cells read as fields."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from tracker.errors import FieldError, InvalidInputError
from tracker.services.imports.reading import answers, column_names
from tracker.services.imports.reading.choices import DEFAULT, Choices
from tracker.services.imports.reading.rows import (
    JUDGE,
    MOST_COLUMNS,
    PROBABILITY,
    UNKNOWN,
    Piece,
    Row,
    read_given,
    refuse_many_columns,
    wrong_file,
)
from tracker.services.imports.reading.shapes import find
from tracker.services.imports.reading.values import (
    ClassReader,
    ConfidenceReader,
    Reader,
    as_metadata,
    as_text,
    build_readers,
    single,
)
from tracker.services.imports.reports import Noted
from tracker.services.wording import show, show_name
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import BATCH_LIMIT
from tracker.words import NO_ANSWER, TARGETED, UNCLEAR

_LONGEST_CLASS = 60
# So many pieces are held until the first prediction is found.
_MOST_HELD = 20
_LATE = (
    "have none; sort the file so that a row with a prediction comes first, or leave "
    "out the column if they are labels"
)
Guess = Callable[[str], bool]


@dataclass(slots=True)
class MappedPiece:
    """Rows of a file by the names of the fields."""

    _piece: Piece
    _plan: column_names.Plan
    _readers: dict[str, Reader]
    _given: dict[str, str]
    # Whether the file has predictions, so that an empty one is no answer.
    has_answers: bool = False
    # What was read as what, by whichever way the piece was looked at last.
    noted: Noted = field(default_factory=Counter)

    @property
    def first(self) -> int:
        return self._piece.first

    @property
    def is_strict(self) -> bool:
        return self._piece.is_strict

    @property
    def names(self) -> list[str]:
        return [*self._plan.fields, *self._given]

    def columns(self) -> dict[str, list[Any]]:
        """Return them by column; ValueError where one could not be read."""
        self.noted.clear()
        raw = self._piece.columns()
        if self._plan.unknown and not self._plan.unknown.isdisjoint(raw):
            raise ValueError("a row has a field that is not known")
        found, errors = self._read_all(raw, self._piece.rows)
        if errors:
            raise ValueError(errors[0].message)
        return found

    def rows(self) -> list[Row]:
        self.noted.clear()
        return [self._read_row(row) for row in self._piece.rows()]

    def said(self, name: str) -> list[Any]:
        """Return the values of a field as they are written in the file."""
        column = self._plan.fields.get(name)
        if column is None:
            return []
        found = (single(find(row.values, column)) for row in self._piece.rows())
        return [value for value in found if value is not None]

    def _answer(self, predicted: Any, row: Row) -> Any:
        column = self._plan.fields["predicted"]
        has_cell = self._piece.has_header or column in {*row.nulls, *row.values}
        if predicted is not None or not (has_cell and row.values):
            return predicted
        self.noted["predicted", "nothing", "no answer"] += 1
        return NO_ANSWER

    def read(self, name: str, values: list[Any]) -> list[Any]:
        read = self._readers.get(name)
        if read is None:
            return values
        if list in set(map(type, values)) and not self.is_strict:
            values = list(map(single, values))
        return read_given(values, lambda given: read(given, self.noted))

    def _read_row(self, row: Row) -> Row:
        raw = {name: [value] for name, value in row.values.items()}
        found, errors = self._read_all(raw, lambda: [row])
        errors += [
            FieldError(show_name(name), "is not a known field")
            for name in row.values
            if name in self._plan.unknown
        ]
        values = {name: one for name, (one,) in found.items() if one is not None}
        return Row(row.number, values, (*row.errors, *errors))

    def _read_all(
        self, raw: dict[str, list[Any]], rows: Callable[[], list[Row]]
    ) -> tuple[dict[str, list[Any]], list[FieldError]]:
        """Return the fields of the *raw* columns, and what is wrong with others."""
        found: dict[str, list[Any]] = {}
        errors: list[FieldError] = []
        for name, column in self._plan.fields.items():
            head = column_names.head_of(column, raw)
            if head not in raw:
                continue
            values = raw[head]
            if head != column:
                values = [find({head: one}, column) for one in values]
            try:
                found[name] = self.read(name, values)
            except ValueError as error:
                errors.append(FieldError(name, str(error)))
        none = [None] * len(next(iter(raw.values()), ()))
        for name, value in self._given.items():
            found[name] = self.read(name, [value]) * len(none)
        if self._plan.is_current in raw and "label" in found:
            told = zip(found["label"], raw[self._plan.is_current], strict=True)
            found["label"] = [
                None if str(is_it).casefold() == "false" else one for one, is_it in told
            ]
        is_wrong = any(one.field == "predicted" for one in errors)
        predicted = found.get("predicted", none)
        if self.has_answers and not is_wrong and None in predicted:
            lines = zip(predicted, rows(), strict=True)
            found["predicted"] = [self._answer(one, row) for one, row in lines]
        self._weigh(found, none)
        self._add_extras(found, raw, none)
        return found, errors

    def _weigh(self, found: dict[str, list[Any]], none: list[None]) -> None:
        if PROBABILITY in found:
            found.setdefault("weight", found.pop(PROBABILITY))
        if "weight" in found:
            # They were not drawn evenly, unless they say how they were.
            columns = (found.get(n, none) for n in ("weight", "label", "sampling"))
            found["sampling"] = [
                TARGETED if said is None and None not in {weight, label} else said
                for weight, label, said in zip(*columns, strict=True)
            ]

    def _add_extras(
        self, found: dict[str, list[Any]], raw: dict[str, list[Any]], none: list[None]
    ) -> None:
        """Add the other columns to the metadata, whose own values take precedence."""
        # Of the row, not of the plan: a file may have thousands of other columns.
        places = self._plan.extras
        extras = sorted(raw.keys() & places.keys(), key=places.__getitem__)
        if not extras:
            return
        given = found.get("metadata", none)
        found["metadata"] = []
        cells = zip(*(raw[name] for name in extras), strict=True)
        for own, line in zip(given, cells, strict=True):
            pairs = zip(extras, map(as_metadata, line), strict=True)
            plain = {name: value for name, value in pairs if value is not None}
            is_whole = not plain or not (own is None or isinstance(own, dict))
            found["metadata"].append(own if is_whole else {**plain, **(own or {})})


class Seen(NamedTuple):
    """A column of a file, the field that it is taken for, and its first values."""

    name: str
    field: str | None
    values: list[str]


@dataclass(slots=True)
class MappedRows:
    """A file as an import reads it: its pieces by field, and how it was read."""

    _pieces: Generator[Piece]
    detector: Detector
    choices: Choices = DEFAULT
    notes: list[str] = field(default_factory=list)
    plan: column_names.Plan = field(default_factory=column_names.Plan)

    @contextmanager
    def pieces(self) -> Iterator[Iterator[MappedPiece]]:
        """Give the next rows, again and again; what reads them ends with the block.

        Raises InvalidInputError where the columns make no sense.
        """
        with closing(self._pieces):
            yield self._iter_pieces()

    def _iter_pieces(self) -> Iterator[MappedPiece]:
        """Yield the pieces once it is known if the file has predictions."""
        held: list[MappedPiece] = []
        has_answers = is_late = False
        for piece in self._mapped():
            held.append(piece)
            if not has_answers:
                try:
                    said = piece.read("predicted", piece.said("predicted"))
                    has_answers = any(one is not None for one in said)
                except ValueError:
                    # A row has one, which is not right.
                    has_answers = True
                if has_answers and is_late:
                    raise InvalidInputError.of(
                        "predicted", f"the rows before row {piece.first:,} {_LATE}"
                    )
            if not (has_answers or is_late) and "predicted" in self.plan.fields:
                is_late = len(held) > _MOST_HELD
                if not is_late:
                    continue
            for one in held:
                one.has_answers = has_answers
                yield one
            held.clear()
        yield from held

    def _mapped(self) -> Iterator[MappedPiece]:
        seen: dict[str, None] = {}
        readers: dict[tuple[bool, bool], dict[str, Reader]] = {}
        is_planned = False
        for piece in self._prepared():
            if piece.first >= BATCH_LIMIT:
                raise wrong_file(f"it has more than {BATCH_LIMIT - 1:,} rows")
            kind = piece.has_comma, piece.is_strict
            if kind not in readers:
                readers[kind] = build_readers(
                    self.detector, self.choices, comma=kind[0], is_strict=kind[1]
                )
            if not is_planned or any(name not in seen for name in piece.names):
                names = piece.names
                if not piece.has_header:
                    names = list(seen | dict.fromkeys(names))
                seen |= dict.fromkeys(names)
                if len(seen) > MOST_COLUMNS:
                    refuse_many_columns()
                self.plan = column_names.guess_columns(
                    names,
                    self.choices,
                    has_header=piece.has_header,
                    holds_classes=self._holds_classes(piece, readers[kind]),
                    knows_classes=self.detector.classes != UNKNOWN,
                )
                is_planned = True
            read, settled = readers[kind], self.choices.classes
            for name in self.plan.fields:
                if name.startswith(JUDGE) and name not in read:
                    judge = ClassReader(self.detector, settled, name, comma=kind[0])
                    read[name] = judge
            if column_names.is_percentage(self.plan.fields.get("confidence", "")):
                read["confidence"] = ConfidenceReader(*kind, is_percent=True)
            yield MappedPiece(piece, self.plan, read, self.choices.given)

    def _prepared(self) -> Iterator[Piece]:
        found: answers.ClassColumns | None = None
        is_known = False
        held: Piece | None = None
        classes, columns = self.detector.classes, self.choices.columns
        counted = answers.read_counts(self._pieces, self.notes)
        read = (answers.read_answers(raw, classes, columns) for raw in counted)
        for piece in chain.from_iterable(read):
            if not is_known and not piece.size:
                held = piece
                continue
            if not is_known:
                is_known, held = True, None
                named = {*self.choices.columns, *map(column_names.role_of, piece.names)}
                whole = column_names.find_whole(
                    piece.names, has_header=piece.has_header
                )
                if "predicted" not in named and whole is None:
                    found = answers.find_class_columns(
                        piece, classes, has_label="label" in named
                    )
                if found is not None:
                    self.notes.append(
                        f"the columns of the classes as {found.field}: the one with "
                        + ("a 1" if found.is_mark else "the highest number")
                    )
            yield from [piece] if found is None else found.read(piece)
        if held is not None:
            yield held

    def _holds_classes(self, piece: Piece, readers: dict[str, Reader]) -> Guess:
        known = {*self.detector.classes, UNCLEAR, NO_ANSWER, None}

        def holds(name: str) -> bool:
            cells = piece.values[piece.names.index(name)] if name in piece.names else ()
            values = [single(value) for value in cells if value is not None]
            try:
                texts = list(map(as_text, values))
                if self.detector.classes == UNKNOWN:
                    short = all(len(text or "") <= _LONGEST_CLASS for text in texts)
                    return short and 0 < len(set(texts)) <= max(2, len(texts) // 2)
                read = readers["label"](values, Counter())
            except ValueError:
                return False
            return 2 * sum(one in known for one in read) >= len(read) > 0

        return holds

    def look(self, rows: int = 3) -> list[Seen]:
        """Return the columns, each with what it is by its name, and its first *rows*.

        They need not make sense together.  Raises InvalidInputError for a file that
        cannot be read.
        """
        names: dict[str, None] = {}
        found: list[Row] = []
        with closing(self._pieces):
            for piece in self._pieces:
                names |= dict.fromkeys(piece.names)
                found += piece.rows()[: rows - len(found)]
                if len(found) >= rows:
                    break
        fields = {name: column_names.known_field(name) for name in names}
        fields |= {column: name for name, column in self.choices.remembered.items()}
        cells = {
            name: [show(row.values[name]) for row in found if name in row.values]
            for name in names
        }
        return [Seen(name, fields[name], cells[name]) for name in names]
