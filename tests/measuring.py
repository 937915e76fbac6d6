"""
Tests that compare a measured time with a bound.

A cost that lies in the code is there in every run; what else the machine does at that moment is not. So the best of
five runs decides. The end of the suite names each test that was run again.
"""

from __future__ import annotations

import pytest

measured = pytest.mark.flaky(reruns=4, only_rerun=["AssertionError"])
"""Marks a test of a measured time: it fails when all of five runs do."""
