"""Events, and the webhooks and mails that announce them."""
