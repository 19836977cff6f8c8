"""The detectors commands."""

import shlex
import sys
from collections.abc import Sequence
from typing import Any, get_args

import click

from tracker.cli.options import fields_as_options, print_rows, repeated, together
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.services import fields
from tracker.services.detectors import (
    DetectorChange,
    NewDetector,
    change_detector,
    create_detector,
    get_detector,
    get_open_detector,
)
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.measures import score_own
from tracker.services.imports.reading.choices import Mapping
from tracker.services.imports.reading.files import load_mapping, save_mapping
from tracker.storage.base import dump_id
from tracker.storage.detectors import list_detectors
from tracker.words import DECIDING_METHOD

# Options that an empty text clears.
_CLEARED = {
    *("target", "production_version", "predictor", "text_field"),
    *("label_sampling", "class_shares", "reference", "group_by"),
}


_sharing = together(
    repeated(
        "--also",
        "MEASURE=TARGET",
        "Another measure with its target, such as recall:DEFECT=0.9; '' for none",
    ),
    repeated(
        "--class-share",
        "CLASS=SHARE",
        "How frequent a class is, such as DEFECT=0.03; '' for not said",
        "shares",
    ),
)


@click.group()
def detectors() -> None:
    """Create, change and list detectors."""


@detectors.command()
@click.argument("name")
@click.option("--classes", default="YES,NO", help="Separated by commas.")
@click.option(
    "--slices", default="", show_default=False, help="Metadata keys for slices."
)
@_sharing
@fields_as_options(
    NewDetector,
    *("question", "guideline", "target", "measure", "label_sampling", "reference"),
    *("group_by", "confidence_level", "queue_rate", "labels_wanted", "consensus"),
    *("label_of", "method", "text_field"),
)
def create(  # noqa: PLR0913 - options that are parsed here.
    name: str,
    *,
    classes: str,
    also: tuple[str, ...],
    label_sampling: str | None,
    shares: tuple[str, ...],
    slices: str,
    text_field: str | None,
    **chosen: Any,
) -> None:
    """Create the detector NAME, and print its id."""
    if label_sampling is None and sys.stdin.isatty():
        click.echo(
            "How will the queries be chosen that get labels?\n"
            "  random    at random, whatever the detector says\n"
            "  all       every query gets its label sooner or later\n"
            "  targeted  somebody picks them\n"
            "  unsaid    decide later; until then no verdict goes by such labels",
            err=True,
        )
        kinds = click.Choice((*get_args(fields.LabelSampling), "unsaid"))
        answer = click.prompt("Labels", type=kinds, default="unsaid", err=True)
        label_sampling = None if answer == "unsaid" else answer
    given = chosen | {
        "name": name,
        "classes": classes.split(","),
        "also": [_parse_also(text) for text in also if text],
        "label_sampling": label_sampling,
        "class_shares": _parse_shares(shares) or None,
        "slices": _split(slices),
        "text_field": text_field or None,
    }
    new = fields.parse_input(NewDetector, given)
    with connected(load_settings(), fill=True) as database, database.write() as session:
        detector = create_detector(session, new, by())
        click.echo(dump_id("det", detector.id))


def _parse_also(text: str) -> dict[str, Any]:
    form = "MEASURE=TARGET, such as recall:DEFECT=0.9"
    name, target = _parse_pair(text, "--also", form)
    return {"measure": name, "target": target}


def _parse_shares(texts: Sequence[str]) -> dict[str, float]:
    form = "CLASS=SHARE, such as DEFECT=0.03"
    return dict(_parse_pair(text, "--class-share", form) for text in texts if text)


def _parse_pair(text: str, option: str, form: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not {form}", param_hint=option) from None


@detectors.command()
@click.argument("name")
@click.option("--slices", help="Metadata keys for slices; '' for none.")
@repeated("--add-class", None, "A new class", "added")
@_sharing
@fields_as_options(
    DetectorChange,
    *("target", "measure", "label_sampling", "reference", "group_by", "consensus"),
    *("production_version", "predictor", "text_field", "guideline", "gold_rate"),
    cleared=_CLEARED,
)
def change(  # noqa: PLR0913 - options that are parsed here.
    name: str,
    *,
    target: str | None,
    reference: str | None,
    also: tuple[str, ...],
    shares: tuple[str, ...],
    slices: str | None,
    added: tuple[str, ...],
    **chosen: Any,
) -> None:
    """Change the detector NAME."""
    settings = load_settings()
    said = chosen | {
        "target": _parse_level("--target", target),
        "reference": _parse_level("--reference", reference),
        "also": [_parse_also(text) for text in also if text] if also else None,
        "class_shares": _parse_shares(shares) if shares else None,
        "slices": None if slices is None else _split(slices),
    }
    given = {field: value for field, value in said.items() if value is not None}
    for field in _CLEARED & given.keys():
        given[field] = given[field] or None
    with connected(settings) as database, database.write() as session:
        detector = get_open_detector(session, name)
        if added:
            given["classes"] = [*detector.classes, *added]
        new = fields.parse_input(DetectorChange, given)
        hosts = settings.predictor_hosts
        change_detector(session, detector, new, by(), predictor_hosts=hosts)


@detectors.command()
@click.argument("name")
@click.option("--remove", is_flag=True, help="Delete the saved mapping.")
def mapping(name: str, *, remove: bool) -> None:
    """Print the saved mapping of the detector NAME as options of import."""
    with connected(load_settings()) as database, database.write() as session:
        detector = get_detector(session, name)
        if remove:
            save_mapping(session, detector, Mapping(), by())
        found = load_mapping(detector)
    for field, column in found.columns.items():
        click.echo(f"--map {shlex.quote(f'{field}={column}')}")
    for value, known in found.classes.items():
        click.echo(f"--class {shlex.quote(f'{value}={known}')}")
    for option in ("extra", "time_zone", "time_format"):
        value = getattr(found, option)
        if value is not None:
            click.echo(f"--{option.replace('_', '-')} {shlex.quote(value)}")


def _parse_level(option: str, text: str | None) -> float | str | None:
    """Parse the number in *text*; "" clears the setting, None leaves it."""
    try:
        return float(text) if text else text
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a number between 0 and 1", param_hint=option
        ) from None


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


@detectors.command(name="list")
def list_them() -> None:
    """List the detectors with the estimates that decide."""
    rows = []
    with connected(load_settings()) as database, database.read() as session:
        for detector in list_detectors(session):
            how: Any = {"computed_at": utc_now(), "method": DECIDING_METHOD}
            estimate = get_estimate(session, detector, **how)
            own = score_own(estimate, detector.measure)
            row = (dump_id("det", detector.id), detector.name, estimate.version or "")
            labels = f"{estimate.labels:,} {estimate.population.kind} {estimate.unit}s"
            if estimate.span and estimate.span.since:
                labels += f" since {estimate.span.since}"
            said = "not known" if own.accuracy is None else f"{own.accuracy:.4f}"
            ends = f"{own.low:.4f} to {own.high:.4f} at {estimate.confidence_level:g}"
            rows.append((*row, labels, detector.measure, said, ends))
    columns = ("id", "name", "version", "labels", "measure", "accuracy", "interval")
    print_rows(columns, rows)
