"""The command recompute."""

import sys

import click

from tracker.cli.logs import configure_logging
from tracker.cli.setup import connected, load_settings, process_name
from tracker.jobs.recompute import Recomputer
from tracker.services.estimates.stream.recount import recount as recount_labels
from tracker.storage.database import Database
from tracker.storage.detectors import list_detectors
from tracker.storage.operations.leases import count_failing


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Recount every label and compare.")
def recompute(*, is_all: bool) -> None:
    """Run the job once; --all also checks the running counts against a recount.

    Detectors that the workers leave alone, because their last run failed, are tried
    too.
    """
    settings = load_settings()
    configure_logging(settings.log_level)
    with connected(settings) as database:
        done = Recomputer(database, process_name()).run(is_forced=True)
        click.echo(
            f"{len(done)} detectors brought up to date: "
            f"{sum(r.labels for r in done):,} labels, "
            f"{sum(r.snapshots for r in done):,} snapshots."
        )
        if is_all and not _is_right(database):
            raise click.ClickException("the running counts differ from a recount")
        with database.read() as session:
            failing = count_failing(session)
        if failing:
            raise click.ClickException(
                f"{failing:,} detectors could not be brought up to date: "
                "tracker doctor says why"
            )


def _is_right(database: Database) -> bool:
    differences = 0
    with database.read() as session:
        detectors = list_detectors(session)
        with click.progressbar(detectors, label="Recounting", file=sys.stderr) as bar:
            for detector in bar:
                for wrong in recount_labels(session, detector):
                    differences += 1
                    click.echo(
                        f"{detector.name}, version {wrong.version}, {wrong.what}: "
                        f"counted {wrong.running:,}, "
                        f"recounted {wrong.recounted:,}",
                        err=True,
                    )
    if not differences:
        click.echo(f"{len(detectors)} detectors recounted: no difference.")
    return not differences
