"""Distributions of SciPy, imported when one is first asked for something.

``scipy.stats`` takes longer to import, and more memory, than all else that Tracker
needs together, and most processes never ask.
"""

import importlib
from typing import Any


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        law = getattr(importlib.import_module("scipy.stats"), self._name)
        return getattr(law, function)


binom = _Law("binom")
hypergeom = _Law("hypergeom")
