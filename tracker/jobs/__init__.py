"""The handlers of tasks, their loop and its scheduler."""
