"""Logging of the commands."""

import logging
import sys

import structlog


def configure_logging(level: str) -> None:
    """Log to stderr from *level* on: as text on a terminal, else as JSON lines."""
    renderer: structlog.typing.Processor = (
        # Not rich tracebacks: they show local variables, which may be API keys.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    processors: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not sys.stderr.isatty():
        processors.append(structlog.processors.format_exc_info)
    least = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=max(least, logging.WARNING), stream=sys.stderr)
    # APScheduler warns if a run takes longer than its interval, which is fine.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
