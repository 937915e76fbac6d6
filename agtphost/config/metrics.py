"""``[metrics]``: where this host tells in numbers how it is."""

from __future__ import annotations

from agtphost.config.http import HttpSection
from agtphost.config.values import Line


class MetricsSection(HttpSection):
    """
    The section ``[metrics]``: ``/metrics`` for Prometheus, and ``/healthz`` and ``/readyz`` for what starts and stops
    hosts (``docs/metrics``). They need no credentials: only this machine reaches them, unless ``listen`` says
    otherwise.
    """

    listen: Line | None = "tcp:9480:interface=127.0.0.1"
    """A Twisted endpoint string, as for every HTTP listener."""

    agents: bool = False
    """Whether calls are also counted by the label of their caller: of 200 callers, the others together."""

    people: bool = False
    """
    Whether calls are also counted by the person whom an identity provider's token names: of 200 people, the others
    together. These are personal data, and everyone who reaches ``/metrics`` can read them.
    """
