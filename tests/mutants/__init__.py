"""Planted bugs, each of which a test of its part has to see (``docs/mutants.md``)."""
