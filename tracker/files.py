"""Where the folders lie that are shipped with the code but are not code."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped_folder(name: str) -> Path:
    """Return the folder *name*: ``templates``, ``static`` or ``migrations``.

    In a checkout it stands beside the package, in a wheel inside of it.  The
    checkout goes first: an editable installation may have left a stale copy.
    """
    beside = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and beside.is_dir():
        return beside
    return _PACKAGE / name
