"""Who may: API keys, scopes, rate limits."""
