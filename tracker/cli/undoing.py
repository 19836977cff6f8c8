"""The undo command, which loads images, as importing does not."""

import click

from tracker.cli.setup import by, connected, load_settings
from tracker.services.imports.background import get_import, unpack_report
from tracker.services.imports.reports import Outcome
from tracker.services.imports.undoing import undo_import


@click.command(name="undo")
@click.argument("number", metavar="IMPORT")
def undo_file(number: str) -> None:
    """Undo IMPORT, such as imp_12: take back what it added.

    History stays.  A query that others labelled since, or that an audit needs, is kept
    and counted.
    """
    with connected(load_settings()) as database, database.write() as session:
        undone = undo_import(session, get_import(session, number), by())
        report = unpack_report(undone) or Outcome()
    taken = report.verdicts_taken_back
    verdicts = f"{taken:,} verdicts of judges, too; " if taken else ""
    click.echo(
        f"{report.queries_taken_back:,} queries, {report.labels_taken_back:,} labels "
        f"and {report.references_taken_back:,} references taken back; {verdicts}"
        f"{report.kept:,} queries stay, because labels or audits need them."
    )
