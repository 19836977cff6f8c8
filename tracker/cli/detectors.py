"""The detectors commands."""

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

import click

from tracker.cli.options import print_rows, repeated, together
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


def _aims(
    *, also: str, sampling: str, share: str, usual: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the options of what a detector is measured by, which may be changed."""
    number, end = (float, ".") if usual else (str, "; '' for none.")
    kinds = [*get_args(fields.LabelSampling), *([] if usual else [""])]
    said = "The sampling of labels that do not say it"
    told = "The accuracy below which you want to be told"
    key = "The metadata key that says which queries belong together"
    on = "What the target is on: balanced, overall, recall:CLASS or precision:CLASS."
    target = "The target of the measure, such as 0.9"
    return together(
        click.option("--target", type=number, help=f"{target}{end}"),
        click.option("--measure", default=usual, help=on),
        repeated("--also", "MEASURE=TARGET", also),
        click.option(
            "--label-sampling", type=click.Choice(kinds), help=f"{said}{sampling}"
        ),
        click.option(
            "--class-share",
            "shares",
            multiple=True,
            metavar="CLASS=SHARE",
            help=f"How frequent a class is, {share}",
        ),
        click.option("--reference", type=number, help=f"{told}{end}"),
        click.option("--group-by", metavar="metadata.KEY", help=f"{key}{end}"),
    )


@click.group()
def detectors() -> None:
    """Create, change and list detectors."""


@detectors.command()
@click.argument("name")
@click.option("--question", required=True, help="The question to labelers.")
@click.option(
    "--guideline",
    default="",
    show_default=False,
    help="How labelers answer the question.",
)
@click.option("--classes", default="YES,NO", help="Separated by commas.")
@_aims(
    usual="balanced",
    also="Another measure with its target, such as recall:DEFECT=0.9",
    sampling=": at random, all queries, or targeted.  Asked for at a terminal.",
    share="such as DEFECT=0.03; once for each class.",
)
@click.option("--confidence-level", type=float, default=0.95)
@click.option(
    "--queue-rate",
    type=float,
    default=1.0,
    help="The share of queries in the random queue.",
)
@click.option(
    "--labels-wanted",
    type=int,
    default=1,
    help="How many different people label each query.",
)
@click.option(
    "--consensus",
    type=click.Choice(get_args(fields.Consensus)),
    default="majority",
    help="Which label is scored where several people are wanted.",
)
@click.option(
    "--label-of",
    type=click.Choice(get_args(fields.LabelOf)),
    default="input",
    help="Whether a label is the truth of an input, or judges one answer.",
)
@click.option(
    "--method",
    type=click.Choice(get_args(fields.ShownMethod)),
    default="joint",
    help="The method of the one-look interval that pages show first.",
)
@click.option(
    "--slices", default="", show_default=False, help="Metadata keys for slices."
)
@click.option("--text-field", help="The metadata key shown as text, if not 'text'.")
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
        "also": [_parse_also(text) for text in also],
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
@_aims(
    also="Replaces the further measures; '' for none",
    sampling="; '' for not said.",
    share="for versions without a label; once for each class; '' for not said.",
)
@click.option(
    "--consensus",
    type=click.Choice(get_args(fields.Consensus)),
    help="Which label is scored where several people are wanted.",
)
@click.option(
    "--production-version", help="The version that pages show; '' for the default."
)
@click.option(
    "--predictor",
    metavar="URL",
    help="The URL of a model that predicts images; '' for none.",
)
@click.option("--slices", help="Metadata keys for slices; '' for none.")
@click.option(
    "--text-field", help="The metadata key shown as text; '' for the default."
)
@click.option("--guideline", help="How labelers answer; '' for none.")
@click.option(
    "--gold-rate", type=float, help="The share of gold queries in the random queue."
)
@repeated("--add-class", None, "A new class", "added")
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
