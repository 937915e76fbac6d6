"""Tests of agtphost.wire: framing without I/O."""
