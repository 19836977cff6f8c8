"""Running it: backup, schema, leases, retention."""
