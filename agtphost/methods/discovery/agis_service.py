"""Describe this host in AGIS documents, and check that its endpoints fit into them (AGIS v01 section 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.agis import AgisSection
from agtphost.config.presence import mcp_front_url, namespace_of, root_of
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.negotiable import is_negotiable
from agtphost.errors import Problem
from agtphost.iagtp import IPayloadAdapter
from agtphost.vocabulary import jsontext

if TYPE_CHECKING:
    from agtphost.agis.service import AgisService

log = Logger()

_MEMBERS: Mapping[int, str] = {4: "path", 5: "semantic", 6: "semantic", 8: "input_schema"}
"""The member of a declaration that each pass checks; the other passes check its method."""

_CONSISTENCY = 6
"""The number of the pass that compares the words of an intent with the method."""


def service_of(
    config: Config,
    root: str,
    version: str,
    known: bool = True,
    about: Mapping[str, Any] | None = None,
    *,
    endpoints: Sequence[Endpoint],
) -> AgisService:
    """
    Return the description of the host for a document.

    :param root: the host's ``agtp://`` URI.
    :param version: the version of what it offers.
    :param known: whether the reader is authenticated: only then data classes are listed in full (AGIS v01 section 14).
    :param about: the agent that the document describes; by default the host.
    :param endpoints: the operator's.
    """
    # Imported here because the module reads a dictionary of verbs, which only AGIS needs.
    from agtphost.agis.service import AgisService

    given = config.agis
    name = given.service or config.host.server_id
    return AgisService(
        name=name,
        agtp=root,
        description=given.description or f"What {name} answers over AGTP.",
        version=version,
        domain=given.domain,
        namespace=namespace_of(config),
        negotiable=is_negotiable(config, endpoints),
        data_classes=[entry.document() if known else entry.public() for entry in config.data_class],
        anonymous=config.policies.anonymous_discovery,
        about={} if about is None else about,
    )


def document_problems(config: Config, endpoints: Sequence[Endpoint]) -> list[Problem]:
    """
    Return the problems of the host's own document.

    An endpoint whose intent contradicts its method (pass 6) is left out of the document and logged: the words of a
    description do not keep a host from starting.

    :return: problems that keep a host from starting if it is to publish its document; otherwise they are only logged.
    """
    if config.agis == AgisSection() or not endpoints:
        return []
    problems: list[Problem] = []
    for number, conforms, problem in _findings(config, endpoints):
        if conforms:
            log.info("in AGIS documents: {problem}", problem=str(problem))
        elif config.agis.publish and number != _CONSISTENCY:
            problems.append(problem)
        else:
            log.warn("left out of AGIS documents: {problem}", problem=str(problem))
    return problems


def problems_of(config: Config, endpoints: Sequence[Endpoint]) -> Iterator[Problem]:
    """Yield a problem for every rule of AGIS that an endpoint breaks; there must be at least one endpoint."""
    return (problem for _, conforms, problem in _findings(config, endpoints) if not conforms)


def _findings(config: Config, endpoints: Sequence[Endpoint]) -> Iterator[tuple[int, bool, Problem]]:
    """Yield each finding in the document of the endpoints: its pass, whether the document conforms, and the problem."""
    from agtphost.agis.endpoints import export_endpoint
    from agtphost.agis.findings import Severity
    from agtphost.agis.service import validate_service

    by_name = {endpoint.name: endpoint for endpoint in endpoints}
    service = service_of(config, root_of(config), "1", endpoints=endpoints)
    for finding in validate_service(service, [export_endpoint(endpoint.projection()) for endpoint in endpoints]):
        if finding.severity is Severity.NOTE:
            continue
        endpoint, member = by_name.get(finding.place), _MEMBERS.get(finding.rule.number, "method")
        hint = f"write {finding.fix}" if finding.fix else f"AGIS v01 section {finding.rule.section}"
        problem = Problem(
            message=f"{finding.place}: {finding.message} ({finding.rule.name})",
            file=str(config.file) if endpoint is None else endpoint.file,
            line=config.place("agis")[0] if endpoint is None else endpoint.lines.get(member, endpoint.line),
            hint=hint,
        )
        yield finding.rule.number, finding.severity is not Severity.ERROR, problem


def summary_renderer(
    config: Config,
    endpoints: Sequence[Endpoint],
    admitted: Callable[[], Iterable[Binding]],
    adapters: Sequence[IPayloadAdapter],
    version: Callable[[], str],
) -> Callable[[], bytes | None]:
    """
    Return a function that renders ``agis.json`` (AGIS v01 section 12.2).

    The function returns None if anonymous clients may not see the document.

    :param endpoints: the operator's.
    :param admitted: returns every binding whose method the policy admits.
    :param adapters: those whose tools are published.
    :param version: returns the version of what is published.
    """
    from agtphost.agis.summary import agis_summary

    def summary() -> bytes | None:
        if not config.policies.anonymous_discovery:
            return None
        bound = [binding for binding in admitted() if binding.tier == "B"]
        tools = [tool for adapter in adapters for tool in adapter.tools()]
        blocks = [(binding.method, binding.details.get("semantic", {})) for binding in bound]
        return jsontext.encode(
            agis_summary(
                service=config.agis.service or config.host.server_id,
                root=root_of(config),
                domain=config.agis.domain or None,
                namespace=namespace_of(config),
                related=config.agis.related,
                endpoints=[(method, *_consequence(block)) for method, block in blocks],
                tools=bool(tools),
                tools_list=mcp_front_url(config),
                negotiable=is_negotiable(config, endpoints),
                confirms=any(binding.approval for binding in (*bound, *tools)),
                data_classes=[entry.name for entry in config.data_class],
                anonymous=True,
                version=version(),
            )
        )

    return summary


def _consequence(block: Mapping[str, Any]) -> tuple[str, bool]:
    """Return what an endpoint is able to do, in the terms of AGIS, and whether it only reads."""
    from agtphost.agis.endpoints import capability_of

    impact = str(block.get("impact", ""))
    return capability_of(str(block.get("capability", "mechanics")), impact), impact == "informational"
