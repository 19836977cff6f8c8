"""What the commands log, and where to."""

import logging
import sys

import structlog


def configure_logging(level: str) -> None:
    """Log to stderr from *level* on: for a terminal, as JSON lines elsewhere."""
    renderer: structlog.typing.Processor = (
        # Rich tracebacks show local variables, and one of them may be an API key.
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
    # A run of the job that takes longer than its interval is no reason to warn.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
