"""Helpers of these tests explain their assertions as tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.torture.doomed", "tests.torture.plans")
