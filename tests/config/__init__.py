"""Tests of agtphost.config."""
