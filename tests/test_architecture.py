"""House rules that no import contract can say; each is shown to fail where broken."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import ROOT

_LONGEST_FILE = 600
_LONGEST_FUNCTION = 50
_LONGEST_WITHOUT_DOCSTRING = 6
_VAGUE_NAMES = {"utils", "util", "helpers", "common", "core", "misc", "manager"}
_ENDS = {"commit", "rollback", "begin_nested"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A file of Python, with its place in the repository."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def sources(*folders: str) -> list[Source]:
    found = [
        Source(path.relative_to(ROOT).as_posix(), path.read_text())
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    assert found
    return found


def environment_readers(source: Source) -> Iterator[str]:
    """Uses of ``os.environ`` and ``os.getenv`` outside of the commands."""
    if source.path.startswith("tracker/cli/"):
        return
    for node in ast.walk(source.tree):
        # What belongs to a request is no environment of a process.
        is_attribute = (
            isinstance(node, ast.Attribute)
            and node.attr in {"environ", "environb", "getenv"}
            and ast.unparse(node.value) != "request"
        )
        is_import = isinstance(node, ast.ImportFrom) and node.module == "os"
        names = {a.name for a in node.names} if isinstance(node, ast.ImportFrom) else ()
        if is_attribute or (is_import and {"environ", "getenv"} & set(names)):
            yield f"{source.path}:{node.lineno} reads the environment"


def migrations_that_import_us(source: Source) -> Iterator[str]:
    """A migration is a photograph; the program may change, the picture not."""
    if source.path == "migrations/env.py":
        return
    for node in ast.walk(source.tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.split(".")[0] == "tracker" for name in names):
            yield f"{source.path}:{node.lineno} imports the program"


def vague_names(source: Source) -> Iterator[str]:
    """Modules and folders whose name says nothing of what is in them."""
    for part in Path(source.path).with_suffix("").parts:
        if part in _VAGUE_NAMES:
            yield f"{source.path} is called {part}"


def long_files(source: Source) -> Iterator[str]:
    length = source.text.count("\n")
    if length > _LONGEST_FILE:
        yield f"{source.path} has {length} lines"


def long_functions(source: Source) -> Iterator[str]:
    """Functions with too many lines, not counting what they say of themselves."""
    for node in ast.walk(source.tree):
        if isinstance(node, _Function):
            first, last = node.body[0], node.end_lineno or 0
            length = last - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                length -= (first.end_lineno or 0) - first.lineno + 1
            if length > _LONGEST_FUNCTION:
                yield f"{source.path}:{node.lineno} {node.name} has {length} lines"


def undescribed_functions(source: Source) -> Iterator[str]:
    """Public functions and methods that are long and have no docstring."""
    tree = source.tree
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    for node in [*tree.body, *(inner for outer in classes for inner in outer.body)]:
        if (
            isinstance(node, _Function)
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
            and not node.decorator_list
            and (node.end_lineno or 0) - node.body[0].lineno
            >= _LONGEST_WITHOUT_DOCSTRING
        ):
            yield f"{source.path}:{node.lineno} {node.name} has no docstring"


def silent_inline_imports(source: Source) -> Iterator[str]:
    """Imports inside of functions without a comment that says why.

    The comment stands on the line or above the imports, maybe above their ``try``.
    """
    lines = source.text.splitlines()
    for function in ast.walk(source.tree):
        if not isinstance(function, _Function):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                above = node.lineno - 1
                while above and re.match(r"\s*(import|from|try:)", lines[above - 1]):
                    above -= 1
                reasons = [
                    lines[above - 1].strip().startswith("#"),
                    re.search(r"# noqa: PLC0415 - \S", lines[node.lineno - 1]),
                ]
                if not any(reasons):
                    yield f"{source.path}:{node.lineno} does not say why it is inside"


def commits(source: Source) -> Iterator[str]:
    """Transactions end where they were opened, which is in one module alone."""
    if source.path == "tracker/storage/database.py":
        return
    for node in ast.walk(source.tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in _ENDS:
            yield f"{source.path}:{called.lineno} ends a transaction"


def imports_behind_the_door(source: Source) -> Iterator[str]:
    """``tracker.stats`` names what other rooms may use; its modules are its own."""
    if source.path.startswith(("tracker/stats/", "tests/stats/")):
        return
    modules = {path.stem for path in (ROOT / "tracker" / "stats").iterdir()}
    for node in ast.walk(source.tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        for name in names:
            place = name.split(".")
            if place[:2] == ["tracker", "stats"] and (
                len(place) > 3 or (len(place) == 3 and place[2] in modules)
            ):
                yield f"{source.path}:{node.lineno} imports {name}, not tracker.stats"


Rule = Callable[[Source], Iterator[str]]
RULES: list[tuple[Rule, tuple[str, ...]]] = [
    (environment_readers, ("tracker", "migrations")),
    (migrations_that_import_us, ("migrations",)),
    (vague_names, ("tracker", "migrations", "tests", "benchmarks", "scripts")),
    (long_files, ("tracker",)),
    (long_functions, ("tracker",)),
    (undescribed_functions, ("tracker", "client/tracker_client")),
    (silent_inline_imports, ("tracker",)),
    (commits, ("tracker",)),
    (
        imports_behind_the_door,
        ("tracker", "client", "scripts", "benchmarks", "tests"),
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "folders"), RULES, ids=lambda v: getattr(v, "__name__", "")
)
def test_the_house_keeps_its_rule(rule: Rule, folders: tuple[str, ...]) -> None:
    broken = [wrong for source in sources(*folders) for wrong in rule(source)]
    assert broken == []


BAD = [
    (environment_readers, "tracker/app.py", "import os\nos.environ['A']\n"),
    (environment_readers, "tracker/settings.py", "from os import getenv\n"),
    (migrations_that_import_us, "migrations/a.py", "import tracker.settings\n"),
    (migrations_that_import_us, "migrations/a.py", "from tracker import stats\n"),
    (vague_names, "tracker/web/utils.py", ""),
    (vague_names, "tracker/common/rows.py", ""),
    (long_files, "tracker/app.py", "x = 1\n" * (_LONGEST_FILE + 1)),
    (
        long_functions,
        "tracker/app.py",
        'def f():\n    """Long."""\n' + "    x = 1\n" * _LONGEST_FUNCTION,
    ),
    (
        undescribed_functions,
        "tracker/app.py",
        "class A:\n    def f(self):\n"
        + "        x = 1\n" * (_LONGEST_WITHOUT_DOCSTRING + 1),
    ),
    (silent_inline_imports, "tracker/app.py", "def f():\n    x = 1\n    import json\n"),
    (
        silent_inline_imports,
        "tracker/app.py",
        "def f():\n    try:\n        import json  # noqa: PLC0415\n    except E: ...\n",
    ),
    (commits, "tracker/services/by.py", "def f(session):\n    session.commit()\n"),
    (imports_behind_the_door, "tests/a.py", "from tracker.stats.exact import f\n"),
    (imports_behind_the_door, "tracker/a.py", "from tracker.stats import exact\n"),
    (imports_behind_the_door, "benchmarks/a.py", "import tracker.stats.exact\n"),
]  # fmt: skip
GOOD = [
    (environment_readers, "tracker/cli/setup.py", "import os\nos.environ['A']\n"),
    (environment_readers, "tracker/settings.py", "def f(environ): environ['A']\n"),
    (migrations_that_import_us, "migrations/env.py", "from tracker import stats\n"),
    (migrations_that_import_us, "migrations/a.py", "import trackers\n"),
    (vague_names, "tracker/web/score.py", ""),
    (long_files, "tracker/app.py", "x = 1\n" * _LONGEST_FILE),
    (
        long_functions,
        "tracker/app.py",
        'def f():\n    """Long.\n\n    Very.\n    """\n'
        + "    x = 1\n" * (_LONGEST_FUNCTION - 1),
    ),
    (undescribed_functions, "tracker/app.py", "def f():\n    return 1\n"),
    (
        undescribed_functions,
        "tracker/app.py",
        'def f():\n    """Long."""\n' + "    x = 1\n" * _LONGEST_WITHOUT_DOCSTRING,
    ),
    (
        silent_inline_imports,
        "tracker/app.py",
        "def f():\n    # It is heavy.\n    try:\n        import a\n        import b\n"
        "    except E: ...\n    import c  # noqa: PLC0415 - see above.\n",
    ),
    (commits, "tracker/storage/database.py", "session.commit()\n"),
    (imports_behind_the_door, "tracker/a.py", "from tracker.stats import anytime\n"),
    (imports_behind_the_door, "tests/stats/a.py", "import tracker.stats.exact\n"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_rule_notices_what_breaks_it(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_rule_lets_pass_what_is_right(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []


def test_every_rule_has_been_seen_to_fail_and_to_pass() -> None:
    rules = {rule for rule, _ in RULES}
    assert {rule for rule, _, _ in BAD} == rules
    assert {rule for rule, _, _ in GOOD} == rules


_DOORS = ("api", "cli", "services", "storage", "web")


def test_no_template_rounds_a_bound() -> None:
    # 0.29 * 1000 is 290.0, and 0.29 is a little less than 29 %: `bounds` knows that.
    for path in sorted((ROOT / "templates").rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(low|high) \* \d", text), path
        assert not re.search(r"format\([^)]*\b(low|high)\)", text), path


def test_a_page_has_its_templates_in_a_folder_of_its_name() -> None:
    modules = {path.stem for path in (ROOT / "tracker" / "web").rglob("*.py")}
    folders = {path.name for path in (ROOT / "templates").iterdir() if path.is_dir()}
    assert folders <= modules


def test_a_noun_lives_in_the_same_room_behind_every_door() -> None:
    """Where api/telling/webhooks.py is, no services/people/webhooks.py is."""
    rooms: dict[str, set[str]] = {}
    for door in _DOORS:
        folder = ROOT / "tracker" / door
        for path in folder.rglob("*.py"):
            place = path.relative_to(folder).parts
            if len(place) > 1 and place[0] != "drawing" and path.stem != "__init__":
                rooms.setdefault(path.stem, set()).add(place[0])
    assert {noun: found for noun, found in rooms.items() if len(found) > 1} == {}


def _rows_of_table(header: str) -> set[str]:
    """The names in the first column of the table of that header."""
    document = (ROOT / "docs" / "architecture.md").read_text()
    table = document.partition(f"\n| {header} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `([a-z_]+(?:/|\.py))` \|", table, re.MULTILINE))


def test_the_tree_in_the_architecture_document_is_the_tree() -> None:
    rooms = {
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "tracker").iterdir()
        if not path.name.startswith("_")
    }
    assert _rows_of_table("in `tracker/`") == rooms


def test_the_rooms_in_the_architecture_document_are_those_of_the_services() -> None:
    rooms = {
        path.name + "/"
        for path in (ROOT / "tracker" / "services").iterdir()
        if path.is_dir() and not path.name.startswith("_")
    }
    header = "in `services/`, `storage/`, `api/`, `web/` and `cli/`"
    assert _rows_of_table(header) == rooms
