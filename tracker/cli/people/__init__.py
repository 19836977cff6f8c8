"""Commands about accounts and API keys."""
