"""Asking again what is recorded: what is chosen, asked, compared and written."""
