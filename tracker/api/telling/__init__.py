"""Events, webhooks, badges."""
