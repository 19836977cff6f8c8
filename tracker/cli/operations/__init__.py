"""Running it: backup, schema, retention, the processes."""
