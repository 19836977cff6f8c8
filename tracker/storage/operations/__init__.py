"""Storage of operators: backup, schema, retention."""
