"""Accounts, sign-ins, API keys, second steps, and the audit log."""
