"""
``format=agis``: what one caller may call, as an AGIS document (AGIS v01 sections 8 and 12, AGTP-API replaces it).

``DESCRIBE /`` and ``DISCOVER /`` answer it where ``format`` or ``Accept`` asks for it. The list is that of DISCOVER,
filtered by the gates' own decision before anything is written; a document that its readers would have to refuse is
never sent. Documents are written off the reactor, and kept for everybody of the same authority.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from twisted.logger import Logger

from agtphost.contract.binding import Binding
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution
from agtphost.methods.discovery.document_cache import KeptDocuments
from agtphost.methods.discovery.openapi import Entry, Run, list_prefixes, project_endpoint, tool_operation
from agtphost.methods.discovery.publication import add_validators
from agtphost.methods.discovery.visibility import Visibility
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason

log = Logger()

AGIS, AGIS_YAML = "agis", "agis-yaml"
"""The values of ``format``."""

VERSION = "1.0"

FORMS: Mapping[str, str] = {media_types.AGIS: AGIS, media_types.AGIS_YAML: AGIS_YAML}
"""The form by media type."""

DEPRECATED = ("AGTP-Endpoint-Warning", 'deprecated="format=agis"; use="DISCOVER /"')
"""Every document is sent with it: AGTP-API's manifest has taken its place."""

_VERSION = re.compile(r'\s*version\s*=\s*"?([^";]*)"?\s*', re.IGNORECASE)

Facts = Callable[[str, bool, Mapping[str, Any]], Any]
"""The :class:`agtphost.agis.service.AgisService` for a reader: version, known reader, facts about the host."""


def form_of(context: BuiltInContext, others: Mapping[str, str]) -> str:
    """
    Return the requested form of an AGIS document: by ``format``, else by Accept; empty where another document is
    requested.

    :param others: what else Accept may prefer, by media type.
    :raises agtphost.errors.Refusal: 422 where no other version of AGIS than one that is not served would do.
    """
    if "format" in context.input:
        asked = context.input["format"]
        return asked if asked in (AGIS, AGIS_YAML) else ""
    header = context.headers.get("accept") if context.headers is not None else None
    if header is None or media_types.AGIS not in header.lower():
        return ""
    parts, unserved = [], ""
    for part in header[:1_000].split(","):
        essence, *given = part.split(";")
        if essence.strip().lower() in FORMS:
            versions = [found[1].strip() for each in given if (found := _VERSION.fullmatch(each)) is not None]
            if any(version not in ("", VERSION) for version in versions):
                unserved = versions[0]
                continue
            given = [each for each in given if _VERSION.fullmatch(each) is None]
        parts.append(";".join((essence, *given)))
    form = media_types.choose_form(",".join(parts), "", {**others, **FORMS})
    if not form and unserved and not any(part.strip() for part in parts):
        raise parameters.invalid("Accept", f"AGIS {unserved[:20]!r} is not served.", f"Ask for version={VERSION}.")
    return form if form in (AGIS, AGIS_YAML) else ""


class AgisFace:
    """
    Writes AGIS documents.

    :param facts: what they say of the service.
    :param bindings: everything registered; read at every call.
    :param adapters: whose tools are listed.
    :param directory: the hosted agents, some of which offer what others do not.
    :param visibility: which of them a caller is shown, and who is known.
    :param version: of what the host has to offer.
    """

    def __init__(
        self,
        facts: Facts,
        catalog: Catalog,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        directory: IAgentDirectory,
        visibility: Visibility,
        run: Run,
        *,
        version: Callable[[], str] = lambda: "1",
    ) -> None:
        self._facts = facts
        self._catalog = catalog
        self._bindings = bindings
        self._adapters = adapters
        self._directory = directory
        self._visibility = visibility
        self._run = run
        self._version = version
        self._documents = KeptDocuments()

    async def answer(self, context: BuiltInContext, form: str) -> Answer:
        """
        Return the document of what one caller may call.

        :param form: one of :data:`AGIS` and :data:`AGIS_YAML`.
        :raises agtphost.errors.Refusal: 503 where the host cannot be described in AGIS.
        """
        addressed = context.agent if context.invocation.is_addressed_by_path else None
        prefix = "" if addressed is None else f"/agents/{addressed.name}"
        bindings, tools = list(self._bindings()), execution.list_offered_tools(self._adapters, context)
        agents = list(filter(self._visibility.in_lists(context), self._directory.list_hosted()))
        built_ins = context.input.get("built_ins") in (True, "true")
        known_reader = self._visibility.proven(context)
        current: list[Any] = [*bindings, *tools, *agents]
        key = (context.authority(), prefix, built_ins, known_reader, form, self._version())
        known = self._documents.find(key, current)
        if known is not None:
            return known
        about = {
            "agent_id": None if context.caller is None else context.caller.agent_id,
            "assurance": context.assurance.label,
        }
        # Made where it is written, too: the first of them reads a dictionary of verbs.
        facts = partial(self._facts, self._version(), known_reader, about)
        answer: Answer = await self._run(
            self._build_document, context, bindings, tools, agents, built_ins, facts, prefix, form
        )
        self._documents.keep(key, current, answer)
        return answer

    def _build_document(
        self,
        context: BuiltInContext,
        bindings: Sequence[Binding],
        offered: Sequence[Binding],
        agents: Sequence[Agent],
        built_ins: bool,
        facts: Callable[[], Any],
        prefix: str,
        form: str,
    ) -> Answer:
        tools = list(filter(context.admits, offered))
        own: list[Entry] = []
        basic: list[Entry] = []
        for binding in bindings:
            entries = basic if binding.tier == "A" else own
            entries.extend(
                (project_endpoint(binding, self._catalog), at) for at in list_prefixes(binding, context, prefix, agents)
            )
        # A caller without permitted operator endpoints gets the built-ins, so that the document is not empty.
        listed = [*own, *(basic if built_ins or not (own or tools) else ())]
        octets = self._encode_document(facts, listed, tools, prefix, form)
        label = media_types.AGIS if form == AGIS else media_types.AGIS_YAML
        answer = Answer(body=octets, content_type=f"{label}; version={VERSION}", headers=(DEPRECATED,))
        return add_validators(answer, "Accept, Agent-ID")

    def _encode_document(
        self,
        facts: Callable[[], Any],
        listed: Sequence[Entry],
        tools: Sequence[Binding],
        prefix: str,
        form: str,
    ) -> bytes:
        from agtphost.agis import normal, service
        from agtphost.agis.endpoints import export_endpoint, tools_entry

        entries = [export_endpoint({**entry, "path": prefix_path(before, entry["path"])}) for entry, before in listed]
        servers: dict[str, list[Mapping[str, Any]]] = {}
        for tool in tools:
            servers.setdefault(prefix + tool.path, []).append(tool_operation(tool, self._catalog))
        entries.extend(tools_entry(path, offered) for path, offered in servers.items())
        try:
            own = service.build_own_document(facts(), entries)
        except service.Unpublishable as error:
            log.error("the host cannot be described in AGIS: {why}", why=str(error))
            raise Refusal(
                Reason.MANIFEST_UNAVAILABLE,
                "The host cannot be described in AGIS.",
                remedy="DISCOVER / has the same as a manifest.",
            ) from None
        theirs = {f"{entry['method']} {entry['path']}" for entry, _ in listed if entry.get("tier") != "A"}
        for name, finding in own.left_out.items():
            if name in theirs:
                why = f"{finding.message} ({finding.rule.name})"
                log.info("{name} is not in AGIS documents: {why}", name=name, why=why)
        return jsontext.encode(own.document) if form == AGIS else normal.as_yaml(own.document).encode()


def prefix_path(before: str, path: str) -> str:
    """Return a path with the prefix of an agent."""
    return path if not before else before if path == "/" else before + path
