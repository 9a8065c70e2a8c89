"""Test runs inside tests."""

from __future__ import annotations

from typing import Final

__all__ = ["LIGHT"]

LIGHT: Final = {"PYTEST_ADDOPTS": "-p no:hypothesispytest"}
"""The environment of a nested run: hypothesis takes a second to import, and no such run uses it."""
