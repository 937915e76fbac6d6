"""Build the gate before PURCHASE, and QUOTE, for the merchants of ``[merchant]``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import Match
from agtphost.contract.prices import PriceList
from agtphost.dispatch.gates.identity import States
from agtphost.dispatch.gates.purchase import MerchantGate
from agtphost.dispatch.merchants import MerchantManifest, MerchantManifests, Serve
from agtphost.dispatch.quotes import Quotes
from agtphost.handlers.interface import IHandler
from agtphost.identity.agents import Agent
from agtphost.identity.bearer import TokenIssuer
from agtphost.identity.intent import IntentAssertions
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance
from agtphost.methods.merchant import QUOTE, ActionResolver, Estimates, Quotation, quoting
from agtphost.vocabulary.catalog import Catalog


class PurchaseFeature:
    """
    The gate and bindings of PURCHASE and QUOTE.

    :param find: returns what a method on a path is bound to; used once requests come.
    :param serve: returns Identity Documents as this host serves them.
    :param now: returns seconds since the Unix epoch.
    """

    def __init__(
        self,
        config: Config,
        held: StateTable,
        states: States,
        key: SigningKey | None,
        find: Callable[[str, str], Match | None],
        serve: Serve,
        now: Callable[[], float],
        resolver: ActionResolver,
    ) -> None:
        given = config.merchant
        production = not config.host.development
        self.manifests = MerchantManifests(serve, signed=production)
        self.gate = MerchantGate(
            states,
            self.manifests,
            assertions=IntentAssertions(
                [
                    TokenIssuer(
                        issuer=platform.issuer,
                        audiences=(),
                        algorithms=platform.allowed_algs,
                        leeway=platform.leeway_seconds,
                        keys=platform.jwks,
                    )
                    for platform in given.platform
                    if platform.jwks is not None
                ]
            ),
            held=held,
            intent_required=given.intent_required,
            production=production,
        )
        self._states = states
        self._estimates = Estimates(find, PriceList(config.methods.price), resolver)
        self._quotes = Quotes(held)
        self._key = key
        self._now = now
        self._seconds = given.quote_seconds

    def manifest_of(self, agent: Agent) -> MerchantManifest:
        """Return a merchant's present manifest."""
        return self.manifests.manifest_of(agent, self._states(agent))

    def _quotation(self, inner: IHandler | None) -> Quotation:
        return Quotation(inner, self._estimates, self._quotes, key=self._key, seconds=self._seconds, now=self._now)

    def bind_quotes(self, endpoints: Iterable[Binding]) -> list[Binding]:
        """Return the operator's endpoints with those of QUOTE bound to quotations."""
        return [quoting(binding, self._quotation) for binding in endpoints]

    def built_in_bindings(self, catalog: Catalog, endpoints: Iterable[Binding], least: Assurance) -> Sequence[Binding]:
        """
        Return the built-in QUOTE on ``/``, which gives prices of calls of this host, unless the operator binds it.

        :param least: the least assurance of its caller.
        """
        entry = catalog.entry(QUOTE)
        if entry is None or any((each.method, each.path) == (QUOTE, "/") for each in endpoints):
            return ()
        return (Binding.native(QUOTE, "/", self._quotation(None), entry.description, least),)
