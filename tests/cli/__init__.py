"""Tests of agtphost.cli."""
