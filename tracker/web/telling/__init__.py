"""Pages of events, webhooks, mail and badges."""
