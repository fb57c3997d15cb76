"""What a test needs of the build that it runs with."""

from __future__ import annotations

import pytest

from warmroute.build import code

needs_source = pytest.mark.skipif(
    code() == "compiled", reason="replaces a method of ours, which compiled classes do not allow"
)
