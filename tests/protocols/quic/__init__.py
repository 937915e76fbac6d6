"""Tests of AGTP over QUIC: a simulated network in virtual time, and hostile clients."""
