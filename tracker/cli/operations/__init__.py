"""Commands of operators: backup, schema, retention, the processes."""
