"""The commands around detectors."""

import shlex
from typing import Any, get_args

import click
from rich.table import Table

from tracker.cli.printing import print_table
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.services.detectors import (
    DetectorChange,
    NewDetector,
    change_detector,
    create_detector,
    get_detector,
    get_open_detector,
)
from tracker.services.estimates.estimate import get_estimate
from tracker.services.fields import ShownMethod, parse_input
from tracker.services.imports.reading.choices import Mapping
from tracker.services.imports.saved import load_mapping, save_mapping
from tracker.storage.base import dump_id
from tracker.storage.detectors import list_detectors


@click.group()
def detectors() -> None:
    """Make and list detectors."""


@detectors.command()
@click.argument("name")
@click.option("--question", required=True, help="What a labeler is asked.")
@click.option("--guideline", default="", help="How to answer it, for labelers.")
@click.option("--classes", default="YES,NO", show_default=True, help="By commas.")
@click.option("--target", type=float, help="Balanced accuracy aimed at, such as 0.9.")
@click.option("--confidence-level", type=float, default=0.95, show_default=True)
@click.option(
    "--queue-rate",
    type=float,
    default=1.0,
    show_default=True,
    help="The share of queries in the random queue.",
)
@click.option(
    "--labels-wanted",
    type=int,
    default=1,
    show_default=True,
    help="How many different people label each query.",
)
@click.option(
    "--method",
    type=click.Choice(get_args(ShownMethod)),
    default="joint",
    show_default=True,
    help="The method of the intervals on pages.",
)
@click.option("--slices", default="", help="Metadata keys for slices.")
@click.option("--text-field", help="The metadata key shown as text, if not 'text'.")
def create(  # noqa: PLR0913, PLR0917 - one argument for each option.
    name: str,
    question: str,
    guideline: str,
    classes: str,
    target: float | None,
    confidence_level: float,
    queue_rate: float,
    labels_wanted: int,
    method: str,
    slices: str,
    text_field: str | None,
) -> None:
    """Make the detector NAME, and print its id."""
    new = parse_input(
        NewDetector,
        {
            "name": name,
            "question": question,
            "guideline": guideline,
            "classes": classes.split(","),
            "target": target,
            "confidence_level": confidence_level,
            "queue_rate": queue_rate,
            "labels_wanted": labels_wanted,
            "method": method,
            "slices": _split(slices),
            "text_field": text_field or None,
        },
    )
    with (
        connected(load_settings(), fill=True) as database,
        database.write() as session,
    ):
        detector = create_detector(session, new, by())
        click.echo(dump_id("det", detector.id))


@detectors.command()
@click.argument("name")
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
@click.option("--guideline", help="How to answer, for labelers; '' for none.")
@click.option(
    "--gold-rate", type=float, help="The share of gold queries in the random queue."
)
@click.option("--add-class", "added", multiple=True, help="One more; repeatable.")
def change(  # noqa: PLR0913, PLR0917 - one argument for each option.
    name: str,
    production_version: str | None,
    predictor: str | None,
    slices: str | None,
    text_field: str | None,
    guideline: str | None,
    gold_rate: float | None,
    added: tuple[str, ...],
) -> None:
    """Change the detector NAME."""
    settings = load_settings()
    given: dict[str, Any] = {}
    if production_version is not None:
        given["production_version"] = production_version or None
    if predictor is not None:
        given["predictor"] = predictor or None
    if slices is not None:
        given["slices"] = _split(slices)
    if text_field is not None:
        given["text_field"] = text_field or None
    if guideline is not None:
        given["guideline"] = guideline
    if gold_rate is not None:
        given["gold_rate"] = gold_rate
    with connected(settings) as database, database.write() as session:
        detector = get_open_detector(session, name)
        if added:
            given["classes"] = [*detector.classes, *added]
        new = parse_input(DetectorChange, given)
        hosts = settings.predictor_hosts
        change_detector(session, detector, new, by(), predictor_hosts=hosts)


@detectors.command()
@click.argument("name")
@click.option("--remove", is_flag=True, help="Save nothing any more.")
def mapping(name: str, *, remove: bool) -> None:
    """Print how files of the detector NAME are read, as options of import."""
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


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


@detectors.command(name="list")
def list_them() -> None:
    """List the detectors with their estimates."""
    table = Table("id", "name", "version", "labels", "balanced accuracy", "interval")
    with connected(load_settings()) as database, database.read() as session:
        for detector in list_detectors(session):
            estimate = get_estimate(session, detector, computed_at=utc_now())
            balanced = estimate.balanced
            accuracy = balanced.accuracy
            table.add_row(
                dump_id("det", detector.id),
                detector.name,
                estimate.version or "",
                f"{estimate.labels:,}",
                "not known" if accuracy is None else f"{accuracy:.4f}",
                f"{balanced.low:.4f} to {balanced.high:.4f} "
                f"at {estimate.confidence_level:g}",
            )
    print_table(table)
