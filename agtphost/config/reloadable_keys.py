"""
Which keys of ``host.toml`` a running host takes, and which wait for a restart.

What is not named here is taken. What waits does so because something was made of it at the start that lives as long as
the process: the store and the chains in it, listeners, threads, what watches the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agtphost.config.sections import Config

SECONDS = 300.0
"""That reading a configuration, and starting what is new behind it, may take."""

WHOLE: frozenset[str] = frozenset({"*"})
"""Every key of a table."""

RESTART: Mapping[str, frozenset[str]] = {
    "host": WHOLE,
    "listen": WHOLE,
    "wire": frozenset({"strict_request_line"}),
    "limits": frozenset(
        {
            *("request_line", "header_line", "header_block", "header_count", "body", "handshake_timeout"),
            *("header_timeout", "body_gap_timeout", "body_min_rate", "idle_timeout", "write_timeout", "connections"),
            *("connections_per_address", "handshakes_per_second_per_address", "exempt_addresses"),
            *("keyed_requests_per_agent", "keyed_octets_per_agent", "keyed_requests_in_all", "keyed_octets_in_all"),
            *("requests_per_connection", "connection_age", "output_high_water", "drain_timeout", "drain_delay"),
        }
    ),
    "store": WHOLE,
    "log": frozenset({"format"}),
    "cluster": WHOLE,
    "audit": frozenset(
        {
            *("signing", "key", "envelope", "witness", "witnesses", "witness_host", "witness_required"),
            *("witness_plugin", "witness_seconds", "refusal_summary_seconds"),
        }
    ),
    "lifecycle": frozenset({"notify", "notify_cert", "notify_key", "notify_ca"}),
    "identity": frozenset({"known_agents", "anchor"}),
    "catalog": WHOLE,
    "endpoints": frozenset({"threads"}),
    "delegation": WHOLE,
    "a2a": frozenset({"front"}),
    "gateway": frozenset(
        {*("listen", "certificate", "key", "hosts", "origins", "behind_proxy", "url", "client_certificates")}
    ),
    "mcp": frozenset({"front"}),
    "gate": WHOLE,
    "adapter": WHOLE,
    "observer": WHOLE,
    "admin": frozenset({"listen", "certificate", "key", "hosts", "origins", "behind_proxy", "url", "idle"}),
    "wellknown": WHOLE,
    "metrics": WHOLE,
    "quic": WHOLE,
    "registry": frozenset(
        {*("listen", "certificate", "key", "hosts", "origins", "behind_proxy", "path", "url", "client_certificates")}
    ),
    "witness": WHOLE,
    "traces": WHOLE,
}
"""By table, the keys that wait for a restart."""

STANDBY_RESTART: Mapping[str, frozenset[str]] = {
    **{name: RESTART[name] for name in ("host", "store", "log", "cluster", "metrics")},
    "audit": frozenset({"signing", "key"}),
}
"""The same for a host on standby: what it uses while it waits. All else is made when it takes over."""


def waits(table: str, key: str) -> bool:
    """
    Return whether a key waits for a restart.

    :param table: with its dots, such as ``audit.witness_host``.
    """
    top, _, below = table.partition(".")
    keys = RESTART.get(top, frozenset())
    return keys == WHOLE or (below.partition(".")[0] or key) in keys


def merge_reloadable(
    read: Config, running: Config, restart: Mapping[str, frozenset[str]] = RESTART
) -> tuple[Config, list[str], list[str]]:
    """
    Merge a configuration that was read into that of a running host.

    :param restart: by table, the keys that cannot change.
    :return: the configuration to take, which has the running one's values where they cannot change; the tables that it
        takes; and the keys that wait.
    """
    values: dict[str, Any] = {}
    taken: list[str] = []
    waiting: list[str] = []
    for name in type(read).model_fields:
        if name == "file":
            continue
        new, old = getattr(read, name), getattr(running, name)
        values[name] = value = new
        keys = restart.get(name, frozenset())
        if keys == WHOLE:
            values[name] = value = old
            if new != old:
                waiting.append(f"[{name}]")
        elif keys and not (new is None and old is None):
            # A section that is missing is one that says nothing.
            old = type(new)() if old is None and new is not None else old
            differing = list(_differing(type(old)() if new is None else new, old, keys))
            waiting += [f"[{name}] {key}" for key in differing]
            if differing and new is None:
                values[name] = value = old
            elif differing:
                values[name] = value = new.model_copy(update={key: getattr(old, key) for key in differing})
        if value != getattr(running, name):
            taken.append(f"[{name}]")
    return read.model_copy(update=values), taken, waiting


def _differing(new: Any, old: Any, keys: frozenset[str]) -> Iterator[str]:
    return (key for key in type(new).model_fields if key in keys and getattr(new, key) != getattr(old, key))
