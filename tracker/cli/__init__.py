"""The commands."""

import importlib
import sys

import click

from tracker.errors import InvalidInputError, TrackerError

# Where each command stands.  It is imported when it is asked for: the worker has
# no use for the web server, and a key is made without statistics.
_COMMANDS = {
    "serve": "serve.serve",
    "demo": "demo.demo",
    "web": "web.web",
    "worker": "worker.worker",
    "db": "schema.db",
    "detectors": "detectors.detectors",
    "import": "imports.import_file",
    "export": "exports.export",
    "estimate": "estimates.estimate",
    "compare": "comparison.compare",
    "plan": "planning.plan",
    "interval": "calculator.interval",
    "coverage": "calculator.coverage",
    "recompute": "recompute.recompute",
    "studies": "studies.studies",
    "accounts": "accounts.accounts",
    "keys": "api_keys.keys",
    "backup": "backup.backup",
    "restore": "backup.restore",
    "doctor": "doctor.doctor",
}


class _Group(click.Group):
    """Loads a command when it is used, and prints our own errors as one line each."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(".")
        command = getattr(importlib.import_module(f"tracker.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

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


@click.group(cls=_Group)
@click.version_option(package_name="tracker")
def main() -> None:
    """Measure how accurate detectors are in production, and how sure that is."""
