"""Tables on a terminal."""

from rich.console import Console
from rich.table import Table


def print_table(table: Table) -> None:
    """Print *table*; square brackets in a name are not taken for colours."""
    Console(markup=False, emoji=False, highlight=False).print(table)
