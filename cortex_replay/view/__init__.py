"""A page to look at recordings with (ADR 21)."""
