"""The mark of tests that only make sense with the compiled core."""

from __future__ import annotations

import pytest

from calve.compiled.library import missing

needs_core = pytest.mark.skipif(missing() is not None, reason=str(missing()))
