"""The commands."""

import importlib
import sys

import click

from tracker.errors import InvalidInputError, TrackerError

# The commands of each module, imported when one is used: the worker does not need
# the web server, and keys do not need statistics.
_COMMANDS = {
    "operations.serve": ("serve",),
    "demo": ("demo",),
    "operations.web": ("web",),
    "operations.worker": ("worker",),
    "operations.doctor": ("db", "recompute", "doctor"),
    "detectors": ("detectors",),
    "imports": ("import", "undo", "inspect"),
    "exports": ("export",),
    "estimates": ("estimate", "slices", "weeks"),
    "deciding": ("compare", "gate", "plan"),
    "mcp": ("mcp",),
    "labelling": ("studies", "audits"),
    "accounts": ("accounts", "keys"),
    "badges": ("badges",),
    "operations.backup": ("backup", "restore"),
    # Run by other commands, and not listed.
    "operations.preparation": ("prepare",),
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
        for name, commands in _COMMANDS.items():
            if cmd_name in commands:
                found = vars(importlib.import_module(f"tracker.cli.{name}")).values()
                there = (one for one in found if isinstance(one, click.Command))
                return next(one for one in there if one.name == cmd_name)
        return None

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
