"""Run the commands with ``python -m tracker``."""

from tracker.cli import main

if __name__ == "__main__":
    main()
