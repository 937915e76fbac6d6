"""Rules that span several keys of ``[listen]``."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import ConfigFault
from agtphost.config.sections import Config


def listen_faults(config: Config) -> Iterator[ConfigFault]:
    """Check which keys go together."""
    listen = config.listen
    if config.quic.enabled:
        yield from _quic(config)
    if listen.endpoint is None:
        return
    # With systemd, only its socket unit has the address, so these keys inform commands.
    for key in () if listen.endpoint.startswith("systemd:") else ("address", "port"):
        if key in listen.model_fields_set:
            yield ConfigFault(
                location=("listen", key),
                message="cannot be combined with endpoint",
                hint="remove this line, or that of endpoint",
                concerns=(("listen", "endpoint"),),
            )
    if not listen.endpoint or listen.endpoint.startswith(("ssl:", "tls:")):
        yield ConfigFault(
            location=("listen", "endpoint"),
            message="must be a plain endpoint such as tcp:4480; the host adds TLS itself",
        )


def _quic(config: Config) -> Iterator[ConfigFault]:
    """Check that QUIC can listen where TLS does."""
    if config.listen.endpoint is not None:
        yield ConfigFault(
            location=("listen", "endpoint"),
            message="cannot be combined with [quic] enabled: QUIC listens at address and port",
            hint="write address and port in place of endpoint, or leave [quic] out",
            concerns=(("quic", "enabled"),),
        )
    elif "%" in config.listen.address:
        yield ConfigFault(
            location=("listen", "address"),
            message=f"cannot have a zone where [quic] is enabled, as {config.listen.address!r} has",
            hint="name an address without one, or leave [quic] out",
            concerns=(("quic", "enabled"),),
        )
