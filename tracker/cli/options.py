"""Options that several commands have, and the JSON that they print."""

import json

import click

from tracker.shapes import Shape

format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
)

version_option = click.option(
    "--version", help="The version; by default the one that pages show; * pools all."
)


def print_json(found: Shape) -> None:
    """Print what a service answers, as the API does but with line breaks."""
    click.echo(json.dumps(found.dump(), ensure_ascii=False, indent=1))
