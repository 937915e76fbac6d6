"""
The ceiling of negotiation: only data that the operator declares is negotiated (AGIS v01 section 8.3).

The data classes of an endpoint that is negotiated are those that its steps declare, whatever the proposal calls them.
Steps that declare none are negotiated only with ``[policies.synthesis] unclassified = true``.
"""

from __future__ import annotations

from collections.abc import Iterable

from agtphost.config import Config
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.graph import Needs
from agtphost.errors import Refusal
from agtphost.negotiation.settings import Settings
from agtphost.vocabulary.reasons import Reason


def is_negotiable(config: Config, endpoints: Iterable[Endpoint]) -> bool:
    """
    Whether there is anything that a proposal may be made of: what documents state as ``negotiable``.

    :param endpoints: the operator's.
    """
    if not config.policies.synthesis_enabled:
        return False
    declared = {entry.name for entry in config.data_class}
    return config.policies.synthesis.unclassified or any(
        endpoint.data_classes and declared.issuperset(endpoint.data_classes) for endpoint in endpoints
    )


def is_within(needs: Needs, settings: Settings) -> bool:
    """Whether every step works with data that the operator declares, or that needs no class here."""
    if needs.unclassified and not settings.policies.synthesis.unclassified:
        return False
    return needs.data_classes <= settings.data_classes.keys()


def is_open(needs: Needs, settings: Settings) -> bool:
    """Whether all data of the steps may be negotiated without credentials (core v08 section 7.5)."""
    if needs.unclassified or not needs.data_classes:
        return False
    return all(settings.data_classes[name].open for name in needs.data_classes)


def require_within(needs: Needs, settings: Settings) -> None:
    """
    Admit only what is made of declared data.

    :param needs: of the steps that would answer.
    :raises Refusal: 463 ``out-of-scope``, with the data classes that there are.
    """
    known = sorted(settings.data_classes)
    if not is_within(needs, settings):
        raise Refusal(
            Reason.OUT_OF_SCOPE,
            "What would answer the proposal works with data that no data class of this host covers.",
            remedy="Propose for a data class of the manifest's data_manifest."
            if known
            else "Call the endpoints one by one; the operator declares data_classes of an endpoint, or sets "
            "[policies.synthesis] unclassified.",
            details={"data_classes": known},
        )
