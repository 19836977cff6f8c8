"""The commands around detectors."""

import click
from rich.table import Table

from tracker.cli.setup import audit_command, connected, load_settings, now, print_table
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates import get_estimate
from tracker.services.fields import parse_input
from tracker.storage.base import dump_id
from tracker.storage.detectors import list_detectors


@click.group()
def detectors() -> None:
    """Make and list detectors."""


@detectors.command()
@click.argument("name")
@click.option("--question", required=True, help="What a labeler is asked.")
@click.option("--classes", default="YES,NO", show_default=True, help="By commas.")
@click.option("--target", type=float, help="Balanced accuracy aimed at, such as 0.9.")
@click.option("--confidence-level", type=float, default=0.95, show_default=True)
@click.option(
    "--audit-rate",
    type=float,
    default=1.0,
    show_default=True,
    help="Which share of the queries is offered to be labelled at random.",
)
@click.option(
    "--labels-wanted",
    type=int,
    default=1,
    show_default=True,
    help="How many different people are to label each query.",
)
def create(  # noqa: PLR0913, PLR0917 - one argument for each option.
    name: str,
    question: str,
    classes: str,
    target: float | None,
    confidence_level: float,
    audit_rate: float,
    labels_wanted: int,
) -> None:
    """Make the detector NAME, and print its id."""
    new = parse_input(
        NewDetector,
        {
            "name": name,
            "question": question,
            "classes": classes.split(","),
            "target": target,
            "confidence_level": confidence_level,
            "audit_rate": audit_rate,
            "labels_wanted": labels_wanted,
        },
    )
    with connected(load_settings()) as database, database.write() as session:
        detector = create_detector(session, new, created_at=now())
        audit_command(session, "detector made", name)
        click.echo(dump_id("det", detector.id))


@detectors.command(name="list")
def list_them() -> None:
    """List the detectors with their estimates."""
    table = Table("id", "name", "version", "labels", "balanced accuracy", "interval")
    with connected(load_settings()) as database, database.read() as session:
        for detector in list_detectors(session):
            estimate = get_estimate(session, detector, computed_at=now())
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
