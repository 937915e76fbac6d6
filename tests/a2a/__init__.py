"""Tests of :mod:`agtphost.a2a`: the server side of A2A."""
