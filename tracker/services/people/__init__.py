"""Accounts of people and keys of programs: who they are, and what they may do."""
