"""Pages of accounts, sign-ins, API keys and the audit log."""
