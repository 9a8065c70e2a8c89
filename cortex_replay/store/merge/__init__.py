"""Bringing two versions of an index together."""
