"""Loading what calls over QUIC need, only where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agtphost.client.errors import InvalidCall
from agtphost.client.tls import TLSSettings
from agtphost.extras import is_installed, missing

if TYPE_CHECKING:
    from agtphost.client.quic.core import QuicCredentials


def load_quic(settings: TLSSettings) -> QuicCredentials:
    """
    Read the certificates for connections by QUIC.

    :raises InvalidCall: for files that cannot be used, or where the library is missing.
    """
    if not is_installed("aioquic"):
        raise InvalidCall(f"QUIC cannot be used: {missing('aioquic')}")
    from agtphost.client.quic.core import load_credentials

    return load_credentials(settings)
