"""The gates of the method and the path: reserved headers, alias, catalog, path grammar, the operator's policy."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zope.interface import implementer

from agtphost.contract.endpoint_table import EndpointTable
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.reserved import NAMING
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.errors import Refusal
from agtphost.vocabulary import paths
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason


@implementer(ICacheableGate)
class ReservedHeadersGate:
    """Delegation-Chain has no semantics yet, so it is refused rather than ignored (core v08 section 5.5)."""

    name = "reserved headers"

    def check(self, exchange: Exchange) -> None:
        if "delegation-chain" in exchange.request.headers:
            raise Refusal(Reason.DELEGATION_NOT_SUPPORTED, details={"header": "Delegation-Chain"})

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict: it depends on a field alone."""
        return ()


@implementer(ICacheableGate)
class AliasGate:
    """Resolves the wire verb in one hop, before any other look at it (AGTP-API section 9.2)."""

    name = "alias"

    def __init__(self, policy: MethodPolicy) -> None:
        self._aliases = policy.aliases

    def check(self, exchange: Exchange) -> None:
        wire = exchange.request.method
        resolved = self._aliases.get(wire)
        if resolved is None:
            exchange.method = wire
        else:
            exchange.method = resolved
            exchange.requested_method = wire

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict: it depends on the first line alone."""
        return ()


@implementer(ICacheableGate)
class CatalogGate:
    """
    The method is one of the catalog's, or one the operator declared: else 459 (AGTP-API section 3.2).

    :param catalog: what requests are validated against unless they ask for another version.
    :param custom: methods beyond every catalog.
    :param policy: for the consent to ad-hoc invocation.
    :param others: further versions that the header AGTP-Catalog-Version can ask for.
    """

    name = "catalog"

    def __init__(
        self, catalog: Catalog, custom: Collection[str], policy: MethodPolicy, others: Sequence[Catalog] = ()
    ) -> None:
        self._catalog = catalog
        self._policy = policy
        self._known = frozenset(catalog.methods) | frozenset(custom)
        self._by_version = {
            supported.version: (supported, frozenset(supported.methods) | frozenset(custom))
            for supported in (catalog, *others)
        }
        self._versions = list(self._by_version)

    def check(self, exchange: Exchange) -> None:
        catalog, known = self._catalog, self._known
        asked = exchange.request.headers.get("agtp-catalog-version")
        if asked is not None:
            catalog, known = self._catalog_for(asked)
            exchange.catalog_warnings = catalog.warnings
        if exchange.method not in known:
            require_consent(exchange, self._policy)
            raise self._violation(exchange.method, catalog)

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict: it depends on the first line and a field alone."""
        return ()

    def _catalog_for(self, version: str) -> tuple[Catalog, frozenset[str]]:
        found = self._by_version.get(version)
        if found is None:
            raise Refusal(
                Reason.CATALOG_VERSION_UNSUPPORTED,
                details={"catalog_version": self._catalog.version, "catalog_versions_supported": self._versions},
            )
        return found

    def _violation(self, method: str, catalog: Catalog) -> Refusal:
        elsewhere = [version for version, (_, known) in self._by_version.items() if method in known]
        details: dict[str, object] = {
            "method": method[:64],
            "catalog_version": catalog.version,
            "close_matches": list(catalog.close_matches(method)),
        }
        remedy = "Use a catalog method; the closest ones are listed."
        if elsewhere:
            details["catalog_versions_with_method"] = elsewhere
            remedy = f"Use a method of this catalog version, or send AGTP-Catalog-Version: {elsewhere[0]}."
        return Refusal(Reason.METHOD_VIOLATION, remedy=remedy, details=details)


def require_consent(exchange: Exchange, policy: MethodPolicy) -> None:
    """
    Ask for the missing half of the consent to ad-hoc invocation (AGTP-API section 16.4, spec reading 50).

    A call of what the host does not offer is an ordinary 459 or 405 where neither side consents, and also where both
    do: nothing here runs it. Where exactly one does, the other is asked for its consent.

    :raises Refusal: 262 ``wildcards-required``.
    """
    agent = exchange.caller is not None and exchange.caller.document.get("wildcards") is True
    if agent is policy.wildcards_accepted:
        return
    missing = "server policy" if agent else "agent identity document"
    raise Refusal(
        Reason.WILDCARDS_REQUIRED,
        f"Calling a method that this host does not offer needs the consent of both sides; the {missing} lacks it.",
        remedy="Call what DISCOVER /methods lists."
        if agent
        else "Declare wildcards: true in the agent's Identity Document, or call what DISCOVER /methods lists.",
        details={
            "method": exchange.method[:64],
            "path": exchange.path,
            "consents": {"agent": agent, "server": policy.wildcards_accepted},
        },
        scopes=(),
    )


@implementer(ICacheableGate)
class PathGate:
    """
    The path follows the path grammar: else 460 naming the segment (AGTP-API section 5).

    An upstream's name may be that of a method, where the host's own templates have a parameter for it.
    """

    name = "path grammar"

    def __init__(self, grammar: paths.PathGrammar) -> None:
        self._grammar = grammar
        self._naming = paths.PathGrammar(())

    def check(self, exchange: Exchange) -> None:
        offence = self._grammar.offence(exchange.path)
        if offence is not None and (exchange.method, exchange.path[: exchange.path.find("/", 1)]) in NAMING:
            offence = self._naming.offence(exchange.path)
        if offence is not None:
            raise Refusal(
                Reason.ENDPOINT_VIOLATION,
                offence.explanation,
                details={"segment": offence.segment, "path": exchange.path},
            )

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict: it depends on the first line alone."""
        return ()


@implementer(ICacheableGate)
class PolicyGate:
    """The operator's method policy admits the method, and so it must the target of a redirect."""

    name = "method policy"

    def __init__(self, policy: MethodPolicy, table: EndpointTable) -> None:
        self._policy = policy
        self._table = table
        self._open = policy.admits_everything

    def check(self, exchange: Exchange) -> None:
        if self._open:
            return
        self._require(exchange)
        target = self._policy.redirect(exchange.method, exchange.path)
        if target is not None:
            exchange.requested_method = exchange.requested_method or exchange.method
            exchange.method, exchange.path = target
            self._require(exchange)

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict: it depends on the first line alone."""
        return ()

    def _require(self, exchange: Exchange) -> None:
        if not self._policy.admits(exchange.method):
            raise not_allowed(exchange, self._table, self._policy, "The operator's policy does not allow the method.")


def not_allowed(exchange: Exchange, table: EndpointTable, policy: MethodPolicy, explanation: str) -> Refusal:
    """405 with what the drafts want in its body (AGTP-API section 11)."""
    allowed = [method for method in table.methods_at(exchange.path) if policy.admits(method)]
    return Refusal(
        Reason.METHOD_NOT_ALLOWED,
        explanation,
        remedy="Use one of the allowed methods." if allowed else "DISCOVER /methods lists what can be called.",
        details={
            "method": exchange.method,
            "path": exchange.path,
            "allowed_methods_for_path": allowed,
            "redirects_for_path": policy.redirects_at(exchange.path),
        },
    )
