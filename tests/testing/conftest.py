from __future__ import annotations

import pytest

# Its assertions should show what they compared, as those of a test module do.
pytest.register_assert_rewrite("tests.adapters.conformance")
