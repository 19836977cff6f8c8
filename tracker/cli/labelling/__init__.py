"""Commands about audits and studies."""
