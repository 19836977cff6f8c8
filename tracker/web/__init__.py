"""The pages."""
# ruff: noqa: F401, F811 - a module is imported for the views that it adds.

from contextlib import suppress
from pathlib import Path

from flask import Flask
from flask_wtf.csrf import CSRFProtect
from jinja2 import FileSystemBytecodeCache, StrictUndefined
from jinja2.bccache import Bucket

from tracker.services.estimates.report import Reports
from tracker.settings import Settings
from tracker.web import (
    detector_list,
    detectors,
    downloads,
    health,
    imports,
    metrics,
    moved,
    settings,
)
from tracker.web.blueprint import WholeConverter, pages
from tracker.web.deciding import attribution, planning
from tracker.web.estimates import history, slices, thresholds, why
from tracker.web.labelling import (
    audits,
    labelers,
    labels,
    rechecks,
    schedules,
    studies,
)
from tracker.web.people import accounts, provider, second_factors, sign_in
from tracker.web.queries import mistakes, queries
from tracker.web.telling import badges, inbox, mail, webhooks
from tracker.words import OUTCOMES

__all__ = ["register"]


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps each compiled template, or the first page of a process waits for it."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        # Where it cannot be written, pages are only slower.
        with suppress(OSError):
            Path(self.directory).mkdir(mode=0o700, exist_ok=True)
            super().dump_bytecode(bucket)


def register(app: Flask, csrf: CSRFProtect, settings: Settings) -> None:
    """Add the pages to *app*."""
    provider.add_provider(app, settings)
    # A misspelt name in a template is an error, not an empty place.
    app.jinja_env.undefined = StrictUndefined
    compiled = _CompiledTemplates(str(settings.data_dir / "templates"))
    app.jinja_env.bytecode_cache = compiled
    app.jinja_env.globals["state_words"] = OUTCOMES
    app.extensions[detector_list.EXTENSION] = Reports()
    app.url_map.converters["int"] = WholeConverter
    csrf.exempt(mail.unsubscribe)
    app.register_blueprint(pages)
