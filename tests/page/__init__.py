"""Tests of :mod:`agtphost.page`: a real host, and a client that speaks HTTPS to it."""
