"""The commands."""

import importlib
import sys

import click

from tracker.errors import InvalidInputError, TrackerError

# The function of each command, imported when it is used: the worker does not need
# the web server, and keys do not need statistics.
_COMMANDS = {
    "serve": "operations.serve.serve",
    "demo": "demo.demo",
    "web": "operations.web.web",
    "worker": "operations.worker.worker",
    "db": "operations.doctor.db",
    "detectors": "detectors.detectors",
    "import": "imports.import_file",
    "undo": "imports.undo_file",
    "inspect": "imports.inspect_file",
    "export": "exports.export",
    "estimate": "estimates.estimate",
    "slices": "estimates.slices",
    "weeks": "estimates.weeks",
    "compare": "deciding.compare",
    "gate": "deciding.gate",
    "mcp": "mcp.mcp",
    "plan": "deciding.plan",
    "recompute": "operations.doctor.recompute",
    "studies": "labelling.studies",
    "audits": "labelling.audits",
    "accounts": "accounts.accounts",
    "badges": "badges.badges",
    "keys": "accounts.keys",
    "backup": "operations.backup.backup",
    "restore": "operations.backup.restore",
    "doctor": "operations.doctor.doctor",
    # Run by other commands, and not listed.
    "prepare": "operations.preparation.prepare",
}
# The list of commands in --help, without importing them.
_DOES = {
    "serve": "Run all of Tracker: the database upgraded, web server and...",
    "demo": "Show Tracker on real handwritten digits, with labels...",
    "web": "Serve the pages and the API.",
    "worker": "Recompute the intervals of detectors with new labels, and...",
    "db": "Upgrade the schema of the database.",
    "detectors": "Create, change and list detectors.",
    "import": "Import the queries and labels in FILE into DETECTOR.",
    "undo": "Undo IMPORT, such as imp_12: take back what it added.",
    "inspect": "Print the format of FILE and what an import would add.",
    "export": "Write the interval history, or the labels, of DETECTOR.",
    "estimate": "Print how accurate DETECTOR is, and how sure that is.",
    "slices": "Print where DETECTOR is worse: its accuracy on each part...",
    "weeks": "Print how accurate DETECTOR was on the queries asked in...",
    "compare": "Print whether a new version of DETECTOR is better than an...",
    "gate": "Stop a build whose DETECTOR is not good enough.",
    "mcp": "Answer questions from a language model over stdin and...",
    "plan": "Print how many more labels DETECTOR needs, and of which...",
    "recompute": "Run the job once; --all also checks the running counts...",
    "studies": "Add, list, show and export resampling studies.",
    "audits": "Create, list and export audits, which need the fewest...",
    "accounts": "Create, list, change and disable accounts.",
    "badges": "Create, list and revoke badges, which show an accuracy to...",
    "keys": "Create, list and revoke API keys.",
    "backup": "Write everything to FILE while the service runs.",
    "restore": "Restore the backup FILE into an empty database.",
    "doctor": "Report problems of the stored data and how to fix them;...",
}


class _Group(click.Group):
    """Imports a command when it is used, and prints our errors as one line each."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_DOES)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].rpartition(".")
        command = getattr(importlib.import_module(f"tracker.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, _ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_DOES.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except InvalidInputError as error:
            for wrong in error.errors:
                row = getattr(wrong, "row", None)
                place = wrong.field if row is None else f"row {row}, {wrong.field}"
                click.echo(f"Error: {place}: {wrong.message}", err=True)
            sys.exit(1)
        except TrackerError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"show_default": True})
@click.version_option(package_name="tracker-server", prog_name="tracker")
def main() -> None:
    """Measure how accurate detectors are in production, and how sure that is."""
