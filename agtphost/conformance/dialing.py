"""New links to a target, over its carrier."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.conformance.access import Access, Carrier
from agtphost.conformance.link import Credentials, Link, TlsLink, Unreachable, client_context


def dialer(access: Access, shown: Credentials) -> Callable[[], Link]:
    """
    Return a function that opens a link to the target, which the caller closes.

    :raises Unreachable: a file of the credentials cannot be used, or the library of the carrier is missing.
    """
    if access.carrier is Carrier.TLS:
        context = client_context(access.trust, shown)
        return lambda: TlsLink(access.where, context, access.timeout)
    try:
        from agtphost.conformance.quic.link import QuicChannel, QuicLink, client_configuration
    except ImportError as error:
        raise Unreachable(f"a run over QUIC needs the package {error.name}, which is not installed") from error
    configuration = client_configuration(access.where, access.trust, shown)

    def dial() -> Link:
        channel = QuicChannel(access.where, configuration, access.timeout)
        channel.shake_hands()
        return QuicLink(channel)

    return dial
