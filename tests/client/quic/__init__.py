"""Tests of the client's side of AGTP over QUIC: in virtual time, and on real sockets of loopback."""

import pytest

pytest.importorskip("aioquic", reason="aioquic is not installed: pip install 'agtphost[quic]'")
