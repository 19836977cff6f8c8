"""What the documents say is so.  (docs/openapi.json: tests/api/test_openapi.py.)"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from tests.processes import ROOT
from tracker.cli import main
from tracker.settings import Settings

DOCS = ROOT / "docs"
# Folders that are made, or that belong to others.
_NOT_OURS = re.compile(
    r"(^|/)(\.git|\.venv|node_modules|build|dist|\.hypothesis|\.[a-z_]+_cache"
    r"|__pycache__|test-results|secrets|[^/]+\.egg-info)(/|$)"
)
# Put together here, because this file must pass its own test.
_REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("npm" + "js", "org"),
        ("npm" + "js", "com"),
        ("yarn" + "pkg", "com"),
        ("un" + "pkg", "com"),
        ("crates", "io"),
        ("ruby" + "gems", "org"),
        ("conda", "anaconda", "org"),
    )
]


@cache
def files() -> list[Path]:
    """Every file of the repository that is text."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        # Nobody goes into the thousands of files of others.
        folders[:] = [name for name in folders if not _NOT_OURS.search(name)]
        for name in names:
            path = Path(folder, name)
            if not _NOT_OURS.search(name) and b"\0" not in path.read_bytes()[:4096]:
                found.append(path)
    assert len(found) > 100
    return sorted(found)


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def prose() -> str:
    """README.md and everything in docs/, which may share the work between them."""
    named = [ROOT / "README.md", *DOCS.rglob("*.md")]
    return "\n".join(path.read_text() for path in named)


# Settings


def configuration() -> dict[str, list[str]]:
    """The cells of each row of the table of settings, by variable."""
    text = (DOCS / "configuration.md").read_text()
    rows = re.findall(r"^\| `(TRACKER_\w+)` \|(.+)\|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in rows}


def test_the_settings_that_are_documented_are_those_that_there_are() -> None:
    assert list(configuration()) == [
        f"TRACKER_{name.upper()}" for name in Settings.model_fields
    ]


def test_documented_defaults_are_the_defaults() -> None:
    said = {name: cells[1].split(" ")[0] for name, cells in configuration().items()}
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, bool | int | float) or name == "log_level":
            written = f"{default:g}" if isinstance(default, float) else str(default)
            written = str(int(default)) if isinstance(default, bool) else written
            assert said[f"TRACKER_{name.upper()}"].strip("`") == written
        elif default == ():
            assert said[f"TRACKER_{name.upper()}"] == "none"


def test_documented_examples_are_taken() -> None:
    for name, cells in configuration().items():
        example = cells[2].split("`")[1]
        if name != "TRACKER_SECRET_KEY":
            Settings.from_env({name: example})


def test_no_document_names_a_setting_that_there_is_not() -> None:
    known = {f"TRACKER_{name.upper()}" for name in Settings.model_fields}
    known |= {f"{name}_FILE" for name in known}
    for path in [*documents(), ROOT / "docker-compose.yml", ROOT / "Dockerfile"]:
        named = set(re.findall(r"\bTRACKER_[A-Z_]+[A-Z]\b", path.read_text()))
        # The suite's own, and a misspelt one that a document warns of.
        named -= {"TRACKER_TEST", "TRACKER_TEST_POSTGRES_URL", "TRACKER_DATABSE_URL"}
        # Those of tracker-client, which tracker passes by.
        named -= {"TRACKER_URL", "TRACKER_KEY", "TRACKER_SPOOL"}
        assert named <= known, path


# Commands


def commands(group: click.Group = main, prefix: str = "tracker") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"\b{re.escape(command)}\b", prose())


def code_in(text: str) -> Iterator[str]:
    """Every line of a shell block, and every piece of code within a sentence."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"`([^`\n]+)`", without_blocks)


def calls_in(text: str) -> Iterator[str]:
    """Calls of our own command in *text*, as they are written."""
    for line in code_in(text):
        # Not tracker/ the folder, not tracker.db and not a name within an address.
        for call in re.findall(r"(?:^|[\s(])(tracker [a-z-][^&|;#)>]*)", line):
            yield call.strip()


def wrong_in(call: str) -> str | None:
    """What is wrong with a call, by the commands and options that there are."""
    words = shlex.split(call)[1:]
    command: click.Command = main
    while isinstance(command, click.Group):
        if words and words[0].startswith("--"):
            break
        context = click.Context(command)
        following = command.get_command(context, words[0]) if words else None
        if following is None:
            return f"{command.name} has no command {words[:1]}"
        command, words = following, words[1:]
    options = {name for option in command.params for name in option.opts}
    options |= {"--help", "--version"}
    unknown = {word.split("=")[0] for word in words if word.startswith("--")} - options
    return f"{command.name} has no {sorted(unknown)}" if unknown else None


def test_documented_calls_name_commands_and_options_that_there_are() -> None:
    calls = {call for path in documents() for call in calls_in(path.read_text())}

    assert len(calls) > 15
    assert [wrong for call in sorted(calls) if (wrong := wrong_in(call))] == []


def test_a_wrong_call_is_noticed() -> None:
    assert list(
        calls_in("Run `tracker fly` or\n```sh\nx=$(tracker keys repair)\n```\n")
    ) == [
        "tracker keys repair",
        "tracker fly",
    ]
    assert wrong_in("tracker fly")
    assert wrong_in("tracker keys repair")
    assert wrong_in("tracker serve --harbour 8000")
    assert wrong_in("tracker serve --port 8000 --help") is None


# The API


def documented_calls() -> set[tuple[str, str]]:
    text = (DOCS / "api.md").read_text()
    return set(re.findall(r"^\| `([A-Z]+) (/\S*)` \|", text, re.MULTILINE))


def test_the_calls_that_are_documented_are_those_that_there_are() -> None:
    paths = json.loads((DOCS / "openapi.json").read_text())["paths"]
    there_are = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in paths.items()
        for method in operations
    }
    assert len(there_are) > 15
    assert documented_calls() == there_are


# Links, targets, addresses


def headings(path: Path) -> set[str]:
    """The anchors of a document, as they are made of its headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", t).strip().lower().replace(" ", "-") for t in titles
    }


def broken_links(path: Path, text: str) -> list[str]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        is_there = linked.exists() and linked.is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in headings(linked)):
            broken.append(target)
    return broken


@pytest.mark.parametrize(
    "path", documents(), ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert broken_links(path, path.read_text()) == []


def test_a_broken_link_is_noticed() -> None:
    text = (
        "[a](none.md) [b](api.md#none) [c](../../x) [d](api.md#lists) [e](https://x.y)"
    )
    assert broken_links(DOCS / "x.md", text) == ["none.md", "api.md#none", "../../x"]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def test_every_make_target_that_is_named_exists() -> None:
    named = {
        target
        for path in documents()
        for code in code_in(path.read_text())
        for target in re.findall(r"^make ([a-z][a-z-]*)", code)
    }
    assert {"run", "test"} <= named
    assert named <= make_targets()


def test_every_make_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    described = set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE))
    assert described == make_targets()


def registries_in(text: str) -> list[str]:
    """Hosts from which packages are fetched: the user's own settings say which."""
    return [host for host in _REGISTRIES if host in text]


@pytest.mark.parametrize("host", _REGISTRIES)
def test_the_name_of_a_registry_is_noticed(host: str) -> None:
    assert registries_in(f"see https://{host}/x") == [host]


def test_no_file_names_a_package_registry() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): hosts
        for path in files()
        if (hosts := registries_in(path.read_text(errors="replace")))
    }
    assert found == {}


def test_decisions_are_numbered_in_one_line_and_each_is_headed_by_its_number() -> None:
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]

    assert numbers == list(range(1, len(numbers) + 1))
    for number, path in zip(numbers, decisions, strict=True):
        assert path.read_text().startswith(f"# {number}. ")


# Prose


def avoided_words() -> list[str]:
    """The second column of the table of words in docs/style.md."""
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) \|$", (DOCS / "style.md").read_text(), re.M
    )
    return [word for row in rows[1:] for word in row.split(", ")]


def avoided_in(text: str) -> list[str]:
    flat = " ".join(text.split())
    return [
        word
        for word in avoided_words()
        if re.search(rf"\b{re.escape(word)}\b", flat, re.IGNORECASE)
    ]


def _is_ours(path: Path) -> bool:
    """Whether we wrote it, and not a tool or the author of a library."""
    name = path.relative_to(ROOT).as_posix()
    return not re.search(
        r"^static/vendor/|LICENSE|^requirements|^docs/style\.md$", name
    )


@pytest.mark.thorough
def test_every_file_is_written_in_the_words_that_were_agreed_on() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): words
        for path in files()
        if _is_ours(path) and (words := avoided_in(path.read_text(errors="replace")))
    }
    assert found == {}


def test_an_avoided_word_is_noticed() -> None:
    # Put together here, because this file must pass its own test.
    word = "who" + "ever"
    assert word in avoided_words()
    assert avoided_in(f"{word.title()} asks, and a\nlabel") == [word]
    assert avoided_in("a new label, ashore") == []
