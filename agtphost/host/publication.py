"""Publish the server manifest; it is built when its content changes, not when it is requested."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.presence import http_apis
from agtphost.contract import manifest
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.manifest_parts import PARTS, SHARED, SINGLE_OCTETS, part_token, split_items
from agtphost.contract.negotiable import is_negotiable
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.reserved import DISCOVERY
from agtphost.dispatch.encoding import in_turns
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.host.publication_history import PublicationHistory, Revision
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.cached_encoding import (
    STEP,
    EncodedArray,
    EncodedItem,
    EncodedItemCache,
    ItemWriter,
    encode_array,
    encode_item,
    text_pieces,
)
from agtphost.identity.canonical import canonical
from agtphost.identity.key_history import earlier_of
from agtphost.identity.keys import SigningKey
from agtphost.identity.manifest_signature import signature_of, signing
from agtphost.methods.execution import called_by
from agtphost.vocabulary import media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason

log = Logger()

HISTORY = "manifest.json"
"""The file of the state directory that remembers what was published, with times."""

NEGOTIATED = "negotiated"
"""The key of the history for persistent negotiated endpoints; the other keys are paths of upstreams."""

UNKNOWN_STATES = frozenset({"stopped", "idle", "starting", "backoff", "failed"})
"""States in which an upstream cannot say what it offers; its last known tools count."""


@dataclass(frozen=True, kw_only=True)
class ManifestForm:
    """A form of the manifest, ready to be sent."""

    document: Mapping[str, Any]
    response: Answer
    """The response with the manifest's octets, or with its first part; encoded once and shared by all readers."""

    further: Mapping[str, FurtherPart] = field(default_factory=dict)
    """The other parts of a manifest in several parts, in order, by the tokens that request them."""


@dataclass(frozen=True, kw_only=True)
class FurtherPart:
    """A part after the first one. It is encoded on request, because all parts together double the memory."""

    document: Mapping[str, Any]
    kid: str
    """The key that signed it; empty if it is not signed."""

    signature: bytes | None
    headers: tuple[tuple[str, str], ...]

    def encoding(self, key: SigningKey | None) -> Generator[None, None, Answer]:
        """
        Return the response, in steps.

        :param key: the host's key; a changed key signs again.
        """
        known = self.signature if key is not None and key.kid == self.kid else None
        signed = yield from signing(self.document, key, known)
        return _encode(signed, self.headers)


class Publication:
    """
    The manifest for each kind of reader, and the counter ``AGTP-API-Version``.

    Nothing is built before :meth:`refresh`, the first request or :meth:`announce_to`.

    :param built_ins: returns the host's own endpoints.
    :param hosted: returns the agents that the manifest may name; call :meth:`drop_forms` after a change.
    :param history: remembers what was published.
    :param clock: schedules the steps in which a large manifest is built.
    :param versions_supported: of the catalog; empty means only that of ``catalog``.
    :param negotiated: returns definitions of persistent negotiated endpoints, or None while they are unknown.
    :param transports: returns the carriers to choose from; empty: TLS alone.
    """

    def __init__(
        self,
        config: Config,
        *,
        catalog: Catalog,
        policy: MethodPolicy,
        endpoints: Sequence[Endpoint],
        built_ins: Callable[[], Sequence[Binding]],
        adapters: Sequence[IPayloadAdapter],
        hosted: Callable[[], Sequence[Agent]],
        key: SigningKey | None,
        history: PublicationHistory,
        clock: IReactorTime,
        versions_supported: Sequence[str] = (),
        negotiated: Callable[[], Sequence[Mapping[str, Any]] | None] = tuple,
        transports: Callable[[], tuple[Mapping[str, Any], ...]] = tuple,
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._versions_supported = versions_supported
        self._negotiated = negotiated
        self._transports = transports
        self._offered: tuple[Mapping[str, Any], ...] = ()
        self._negotiated_entries: tuple[Mapping[str, Any], ...] = ()
        self._policies = manifest.Policies(
            methods=policy,
            wildcards_accepted=config.policies.wildcards_accepted,
            anonymous_discovery=config.policies.anonymous_discovery,
            scope_required_for_invocation=config.policies.scope_required_for_invocation,
            synthesis_enabled=config.policies.synthesis_enabled,
            max_synthesis_depth=config.policies.max_synthesis_depth,
        )
        self._endpoints = endpoints
        self._built_ins = built_ins
        self._adapters = adapters
        self._hosted = hosted
        self._key = key
        self._history = history
        self._is_frozen = False
        self._upstreams: dict[str, Mapping[str, Any]] = {
            path: entry for path, entry in self._history.upstreams.items() if isinstance(entry, dict)
        }
        self._compared: tuple[Any, ...] | None = None
        self._shown: tuple[Mapping[str, Any], ...] = ()
        self._clock = clock
        self._building = DeferredLock()
        self._forms: dict[tuple[bool, bool], ManifestForm] = {}
        self._announce: Callable[[int], None] = lambda _: None
        self._must_count = True
        self._own_digest = ""
        self._fixed_items: tuple[EncodedItem, ...] = ()  # endpoints that do not change while the host runs
        self._listed: EncodedArray | None = None
        self._last: tuple[FurtherPart, Answer] | None = None
        self._writer = ItemWriter(SHARED)
        self._agents = EncodedItemCache[Agent](lambda agent: agent.agent_id, manifest.project_agent)
        self.api_version = 0
        """The present ``AGTP-API-Version``; 0 before the first :meth:`refresh`."""

        self.builds = 0
        """How many forms were built, encoded and signed."""

    def announce_to(self, announce: Callable[[int], None]) -> None:
        """
        Report ``AGTP-API-Version`` now and after every change.

        :param announce: called with the number, which is on disk by then.
        """
        self._announce = announce
        self.refresh()

    def prepare(self) -> Generator[None, None, None]:
        """
        Encode what all forms share, in steps, so that the reactor turn that puts a configuration in force stays short.

        Without this call it is encoded when it is first needed.
        """
        fixed: list[EncodedItem] = []
        for item in manifest.encode_all(self._built_ins(), self._endpoints, self._catalog, self._writer):
            fixed.append(item)
            if not len(fixed) % STEP:
                yield
        self._fixed_items = tuple(fixed)
        yield from self._agents.prepare(self._hosted())

    async def __call__(self, disclosed: bool, known: bool = False, part: str = "") -> Answer:
        """
        Return the signed manifest as it is sent.

        :param disclosed: whether the reader may see which agents are hosted.
        :param known: whether the reader is authenticated: only then data classes are listed in full (AGIS v01 section
            12.2).
        :param part: the token of a part after the first one; empty for the manifest, or its first part.
        :raises Refusal: 503 for a first manifest whose version cannot be made durable; 422 for a token that names no
            part of the form that this reader sees now.
        """
        form = await self.find_form(disclosed, known)
        if not part:
            return form.response
        if part not in form.further:
            raise Refusal(
                Reason.INVALID_INPUT,
                "The token names no part of the present manifest.",
                remedy="Read the manifest again from its beginning: DISCOVER / without part.",
                details={"parameter": "part"},
            )
        further = form.further[part]
        if self._last is not None and self._last[0] is further:
            # Several readers often ask for the same part one after the other.
            return self._last[1]
        answer = await in_turns(further.encoding(self._key), self._clock)
        self._last = further, answer
        return answer

    async def find_form(self, disclosed: bool, known: bool = False) -> ManifestForm:
        """Return the form with its document; agents stopped before this call are not in it."""
        self.refresh()
        # Without data classes both kinds of readers see the same.
        kind = disclosed, known and bool(self._config.data_class)
        if kind in self._forms:
            return self._forms[kind]
        await self._building.acquire()
        try:
            # A concurrent caller may have built it.
            return self._forms.get(kind) or await self._build_form(kind)
        except OSError as error:
            log.error("the manifest's history cannot be written: {why}", why=str(error))
            raise Refusal(Reason.MANIFEST_UNAVAILABLE) from None
        finally:
            self._building.release()

    async def _build_form(self, kind: tuple[bool, bool]) -> ManifestForm:
        """Build a form, and keep it unless it was superseded during that; the waiting caller still gets it."""
        forms = self._forms
        form = await in_turns(self._build(*kind), self._clock)
        forms[kind] = form
        return form

    def refresh(self) -> None:
        """Compare the upstreams with the last comparison; count a change, and rebuild the manifest when asked for."""
        if self._is_frozen:
            return
        looked = tuple((adapter.hosted_protocols(), tuple(adapter.tools())) for adapter in self._adapters)
        agreed, offered = self._read_negotiated(), self._transports()
        if offered != self._offered:
            self._offered, self._forms = offered, {}
        if self._compared is not None and agreed == self._negotiated_entries and self._is_unchanged(looked):
            return
        self._compared = looked
        shown = tuple(self._entries(looked))
        if shown != self._shown or agreed != self._negotiated_entries or not self.api_version:
            if agreed != self._negotiated_entries:
                self._listed = None
            self._shown, self._negotiated_entries = shown, agreed
            self._forms = {}
            self._must_count = True
        if self._must_count:
            self._count()

    def current_version(self) -> str:
        """Return the present ``AGTP-API-Version``, so that what states it never lags behind what it lists."""
        self.refresh()
        return str(self.api_version)

    def freeze(self) -> None:
        """Freeze this publication because another replaces it; remaining requests get what was published last."""
        self._is_frozen = True

    def drop_forms(self) -> None:
        """
        Drop the built forms because the host's key or the set of callable agents changed.

        Encoded entries of agents and endpoints are kept, as there may be thousands.
        """
        self._forms = {}

    def _read_negotiated(self) -> tuple[Mapping[str, Any], ...]:
        """Return the persistent negotiated endpoints, or the last known ones while they are unknown."""
        agreed = self._negotiated()
        if agreed is None:
            return self._negotiated_entries
        found = tuple(agreed)
        if found != self._negotiated_entries or NEGOTIATED in self._upstreams:
            digest = sha256(canonical([dict(entry) for entry in found])).hexdigest() if found else ""
            self._upstreams[NEGOTIATED] = {"definitions": digest}
        return found

    def _is_unchanged(self, looked: tuple[Any, ...]) -> bool:
        """Return whether the upstreams are unchanged; tools are compared by identity, which is fast."""
        assert self._compared is not None
        for (entries, tools), (old_entries, old_tools) in zip(looked, self._compared, strict=True):
            if entries != old_entries or len(tools) != len(old_tools):
                return False
            if any(tool is not old for tool, old in zip(tools, old_tools, strict=True)):
                return False
        return not self._must_count

    def _entries(self, looked: tuple[Any, ...]) -> list[Mapping[str, Any]]:
        """
        Return the upstreams as published: without their momentary state, which DESCRIBE reports. One that is down is
        listed as last known.
        """
        found = []
        for entries, tools in looked:
            for entry in entries:
                path = _path_of(entry)
                settled = entry.get("state") not in UNKNOWN_STATES
                if not settled and path in self._upstreams:
                    found.append(self._upstreams[path])
                    continue
                shown = {name: value for name, value in entry.items() if name not in MOMENTARY_MEMBERS}
                shown["definitions"] = _definitions(tools, path)
                if settled:
                    self._upstreams[path] = shown
                found.append(shown)
        return found

    def _count(self) -> None:
        """Count what can be called, and announce a new number."""
        if not self._own_digest:
            # The host's own part does not change while it runs; with a thousand endpoints this takes a while.
            own = self._document(False, True)
            own["endpoints"] = encode_array(self._fixed_items)
            self._own_digest = manifest.surface_digest(own)
            self._agents(self._hosted())  # this, too, takes long the first time
        definitions = {_path_of(entry): entry.get("definitions", "") for entry in self._shown}
        agreed = self._upstreams.get(NEGOTIATED, {}).get("definitions", "")
        if agreed:
            definitions[NEGOTIATED] = agreed
        digest = sha256(canonical([self._own_digest, definitions])).hexdigest()
        try:
            number = self._history.number_surface(digest, self._upstreams)
        except OSError as error:
            # A number that may be lost must not be seen. The next comparison tries again.
            log.error("AGTP-API-Version cannot be written: {why}", why=str(error))
            return
        self._must_count = False
        if number != self.api_version:
            self.api_version = number
            self._announce(number)

    # Building

    def _build(self, disclosed: bool, known: bool) -> Generator[None, None, ManifestForm]:
        self.builds += 1
        document = self._document(disclosed, known)
        yield
        digest = yield from manifest.content_digest_steps(document)
        yield
        kind = ("disclosed" if disclosed else "reserved") + ("-known" if known else "")
        revision = self._history.number_document(kind, digest)
        document["document_version"] = revision.version
        document["server"] |= {"issued": revision.issued, "updated": revision.updated}
        headers = (("ETag", _etag(digest, revision)), ("Cache-Control", self._cache_control(known)))
        if document["endpoints"].octets <= SINGLE_OCTETS:
            signed = yield from signing(document, self._key)
            yield
            return ManifestForm(document=signed, response=_encode(signed, headers))
        return (yield from self._build_parts(document, _etag(digest, revision), headers))

    def _build_parts(
        self, document: dict[str, Any], tag: str, headers: tuple[tuple[str, str], ...]
    ) -> Generator[None, None, ManifestForm]:
        """Sign each part, and encode the first; the published document has all endpoints."""
        whole = dict(document)
        groups = list(split_items(self._items()))
        total = sum(map(len, groups))
        tokens = [part_token(tag, number) for number in range(1, len(groups) + 1)]
        parts = []
        for number, group in enumerate(groups, 1):
            following = tokens[number] if number < len(groups) else None
            about = {"number": number, "of": len(groups), "endpoints": total, "next": following}
            part = {**document, "endpoints": encode_array(group), PARTS: about}
            document["hosted_agents"] = []  # Only the first part lists the agents.
            key = self._key
            kid, signature = ("", None) if key is None else (key.kid, (yield from signature_of(part, key)))
            yield
            tagged = ("ETag", f'{tag[:-1]}-{number}"') if number > 1 else headers[0]
            fields = (tagged, *headers[1:])
            parts.append(FurtherPart(document=part, kid=kid, signature=signature, headers=fields))
        first = yield from parts[0].encoding(self._key)
        return ManifestForm(document=whole, response=first, further=dict(zip(tokens[1:], parts[1:], strict=True)))

    def _document(self, disclosed: bool, known: bool) -> dict[str, Any]:
        """Return the document without version and times."""
        config = self._config
        document = manifest.build_manifest(
            manifest.ServerFacts(
                server_id=config.host.server_id,
                domain=config.manifest.domain,
                operator=config.host.operator,
                contact=config.host.contact,
                issued="",
                updated="",
                document_version="",
                supported_features=self._features(),
            ),
            catalog=self._catalog,
            versions_supported=self._versions_supported,
            policies=self._policies,
            disclosure=manifest.Disclosure(
                level=config.policies.agent_disclosure,
                notice=config.policies.agent_disclosure_notice,
            ),
            surface=manifest.Surface(
                apis=http_apis(config),
                hosted_protocols=self._shown,
                data_classes=[entry.document() if known else entry.public() for entry in config.data_class],
                negotiable=is_negotiable(config, self._endpoints),
                directory=DISCOVERY,
                transports=self._offered,
            ),
            signing_keys=() if self._key is None else (self._key.public,),
            earlier_keys=[(link.old, link.rotated_at) for link in earlier_of(self._key)],
        )
        document["endpoints"] = self._endpoint_entries()
        if disclosed and config.policies.agent_disclosure != "private":
            document["hosted_agents"] = self._agents(self._hosted())
        return document

    def _endpoint_entries(self) -> EncodedArray:
        """Return the entries of ``endpoints``; those that do not change are encoded once."""
        if not self._fixed_items:
            encoded = manifest.encode_all(self._built_ins(), self._endpoints, self._catalog, self._writer)
            self._fixed_items = tuple(encoded)
        if self._listed is None:
            self._listed = encode_array(self._items())
        return self._listed

    def _items(self) -> list[EncodedItem]:
        """Return the encoded entries of ``endpoints``."""
        return [*self._fixed_items, *(encode_item(dict(definition)) for definition in self._negotiated_entries)]

    def _features(self) -> tuple[str, ...]:
        """Return the features of this host (AGTP-API section 8.3)."""
        protocols = sorted({str(entry.get("protocol", "")).lower() for entry in self._shown} - {""})
        features = ["endpoint-registry", *protocols]
        if self._config.policies.synthesis_enabled:
            features.append("synthesis")
        if self._key is not None:
            features.append("signed-manifest")
        return tuple(features)

    def _cache_control(self, known: bool) -> str:
        """
        Return the Cache-Control of a form (AGTP-API section 8.11); shared caches may keep only what every reader gets.
        """
        policies = self._config.policies
        shared = policies.agent_disclosure != "authenticated" and policies.anonymous_discovery and not known
        age = f"max-age={self._config.manifest.max_age}"
        return age if shared else f"private, {age}"


def _encode(signed: Mapping[str, Any], headers: tuple[tuple[str, str], ...]) -> Answer:
    return Answer(
        body=b"".join(text_pieces(signed)),
        enveloped=False,
        content_type=media_types.MANIFEST_JSON,
        headers=headers,
    )


def _path_of(upstream: Mapping[str, Any]) -> str:
    return str(upstream.get("path", upstream.get("name", "")))


MOMENTARY_MEMBERS = frozenset({"state", "tools", "restarts", "next_attempt_in", "latency"})
"""Members of an upstream that change from moment to moment; DESCRIBE reports them, the manifest does not."""


def _etag(digest: str, revision: Revision) -> str:
    """Return a strong validator of everything in the manifest except its signature, which follows from the rest."""
    whole = "\n".join((digest, revision.issued, revision.updated, revision.version))
    return f'"{sha256(whole.encode()).hexdigest()[:40]}"'


def _definitions(tools: Sequence[Binding], path: str) -> str:
    """
    Return the SHA-256, hex, of an upstream's tool definitions: everyone may see that they changed, but not what they
    are.
    """
    listed = sorted(
        [
            tool.name,
            tool.description,
            list(tool.required_scopes),
            tool.min_assurance.label,
            str(tool.details.get("definition_digest", "")) or {**tool.details, **called_by(tool)},
        ]
        for tool in tools
        if tool.path == path
    )
    return sha256(canonical(listed)).hexdigest()
