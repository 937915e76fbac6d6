"""Rules that span several keys of ``[listen]``."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import ConfigFault
from agtphost.config.sections import Config


def listen_faults(config: Config) -> Iterator[ConfigFault]:
    """Check which keys go together."""
    listen = config.listen
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
