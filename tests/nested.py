"""Test runs inside tests."""

from __future__ import annotations

from typing import Final

__all__ = ["LIGHT", "XDIST"]

LIGHT: Final = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p cortex_replay.pytest_plugin",
}
"""The environment of a nested run: our plugin alone.

To look for plugins, pytest reads about every package that is installed, and to load hypothesis takes longer
than most of these runs. ``tests/pytest_plugin/test_example.py`` has the plugin as pytest finds it.
"""

XDIST: Final = ("-p", "xdist")
"""What a nested run with workers needs besides."""
