"""Whether anything can be negotiated, by the data classes of the configuration and of its endpoints."""

from __future__ import annotations

from collections.abc import Iterable

from agtphost.config import Config
from agtphost.contract.endpoint import Endpoint


def is_negotiable(config: Config, endpoints: Iterable[Endpoint]) -> bool:
    """
    Return whether a proposal can be accepted at all, which documents state as ``negotiable``.

    :param endpoints: the operator's endpoints.
    """
    if not config.policies.synthesis_enabled:
        return False
    declared = {entry.name for entry in config.data_class}
    return config.policies.synthesis.unclassified or any(
        endpoint.data_classes and declared.issuperset(endpoint.data_classes) for endpoint in endpoints
    )
