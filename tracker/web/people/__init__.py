"""Accounts, sign-ins, keys, the audit log."""
