"""The audit of the pinned packages believes no silent auditor."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "audit.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(*vulns: str) -> str:
    found = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": v} for v in vulns]}
    skipped = {"name": "left-out", "skip_reason": "not found"}
    return json.dumps({"dependencies": [found, skipped], "fixes": []})


def test_what_is_vulnerable_is_named(script: ModuleType) -> None:
    assert script.find_vulnerable(told("A-1", "B-2")) == ["jinja2 2.4.1: A-1, B-2"]
    assert script.find_vulnerable(told()) == []


@pytest.mark.parametrize(
    ("control", "lock", "status"),
    [
        ((0, []), (0, []), 2),
        ((1, []), (0, []), 2),
        ((1, ["jinja2 2.4.1: A-1"]), (0, []), 0),
        ((1, ["jinja2 2.4.1: A-1"]), (1, ["x 1: B-2"]), 1),
        ((1, ["jinja2 2.4.1: A-1"]), (1, []), 1),
    ],
)
def test_a_silent_auditor_fails_the_audit(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    control: tuple[int, list[str]],
    lock: tuple[int, list[str]],
    status: int,
) -> None:
    # The source of advisories is outside of this machine; what is asked of it is not.
    answers = iter([control, lock])
    monkeypatch.setattr(script, "audit", lambda *_: next(answers))
    assert script.main() == status
