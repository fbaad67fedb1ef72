"""Published mechanisms as an attacker meets them; see `hushcov.audit.targets`."""
