"""The mcp command."""

import click

from tracker.cli.logs import configure_logging
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.errors import ConfigurationError


@click.command()
@click.option(
    "--key",
    envvar="TRACKER_KEY",
    required=True,
    help="The API key, which limits the detectors; $TRACKER_KEY.",
)
def mcp(key: str) -> None:
    """Answer questions from a language model over stdin and stdout (MCP), read-only."""
    try:
        from tracker.mcp.server import build_server  # noqa: PLC0415 - of an extra.
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "tracker mcp needs the extra mcp: pip install 'tracker-server[mcp]'"
        ) from error
    settings = load_settings()
    configure_logging(settings.log_level)
    with connected(settings) as database:
        build_server(database, key, utc_now).run()
