"""Documents about agents in the form that was asked for, signed: core v08 section 6.1, ``?format=``."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import yaml

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.handlers.built_in import Answer
from agtphost.identity import detached, document_view, documents
from agtphost.identity.agents import Agent
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.methods.discovery.status_document import certificate_status
from agtphost.vocabulary import jsontext, media_types

HTML = "text/html; charset=utf-8"


def compact(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON without white space."""
    return jsontext.encode(document)


def _readable(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON for people: indented, with Unicode unescaped."""
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"


def _yaml(document: Mapping[str, Any]) -> bytes:
    # What an agent shares with an operator's code is of types that YAML does not know; copies are plain.
    text: str = yaml.safe_dump(copy.deepcopy(dict(document)), sort_keys=False, allow_unicode=True)
    return text.encode()


def _page(document: Mapping[str, Any]) -> bytes:
    return document_view.page(document, digest=sha256(compact(document)).hexdigest()).encode()


FORMS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], bytes]]] = {
    "manifest": (media_types.IDENTITY_JSON, _readable),
    "json": (media_types.IDENTITY_JSON, compact),
    "yaml": (media_types.IDENTITY_YAML, _yaml),
    "html": (HTML, _page),
}
"""How an Identity Document is written: its media type and its octets."""

ACCEPTED: Mapping[str, str] = {
    **dict.fromkeys((media_types.IDENTITY_JSON, media_types.AGTP_JSON, media_types.JSON, "*/*"), ""),
    **dict.fromkeys((media_types.IDENTITY_YAML, media_types.AGTP_YAML, media_types.YAML), "yaml"),
    **dict.fromkeys(("text/html", "text/*"), "html"),
}
"""The form of a document by a media type in Accept; empty: the usual one."""


IDENTITY: Mapping[str, str] = {
    **dict.fromkeys((media_types.AGTP_JSON, media_types.JSON, "*/*"), ""),
    media_types.IDENTITY_JSON: "manifest",
    media_types.IDENTITY_YAML: "yaml",
    **dict.fromkeys(("text/html", "text/*"), "html"),
}
"""The form of an Identity Document by a media type that asks for one; empty: the type asks for something else."""


def add_validators(answer: Answer, vary: str = "Accept") -> Answer:
    """
    Add the header fields that HTTP clients revalidate with, such as ``ETag``.

    :param vary: the field of the request that they depend on.
    """
    tag = f'"{sha256(answer.body or b"").hexdigest()[:40]}"'
    fields = (("ETag", tag), ("Cache-Control", "private, no-cache"), ("Vary", vary))
    return replace(answer, headers=(*answer.headers, *fields))


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer, and all that it was made from."""

    source: Mapping[str, Any]
    state: LifecycleState
    methods: tuple[str, ...]
    certificate: str
    answer: Answer


class DocumentPublisher:
    """
    Gives documents their form and this host's signature.

    A registrar's signature stays on an Identity Document as long as it holds.
    Where this host knows more than the registrar signed, such as a new state
    or its further methods, it signs the document itself.

    :param issuer: the host's name: its ``server_id``.
    :param signer: signs every variant; None where this host does not sign.
    :param public: the public half of its key.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        issuer: str,
        signer: Signer | None,
        public: VerifyingKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._signer = signer
        self._public = public
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}

    def adopt(self, signer: Signer, public: VerifyingKey) -> None:
        """Sign with another key from now on."""
        self._signer, self._public = signer, public
        self._kept.clear()

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Ready octets with their signature."""
        signed = () if self._signer is None else ((detached.HEADER, detached.sign(body, self._signer)),)
        return Answer(body=body, content_type=content_type, headers=signed)

    def document(self, document: Mapping[str, Any], form: str) -> Answer:
        """Return the answer for one of the host's documents, as JSON, or as YAML if ``form`` says so."""
        if form == "yaml":
            return self.answer(_yaml(document), media_types.AGTP_YAML)
        return self.answer(compact(document), media_types.AGTP_JSON)

    def identity(self, agent: Agent, state: LifecycleState, methods: tuple[str, ...], form: str) -> Answer:
        """
        Return the answer that has an agent's Identity Document.

        :param methods: what this host accepts; the document lists them all (AGTP-140).
        :param form: one of :data:`FORMS`.
        """
        certificate = certificate_status(agent, self._clock())
        kept = self._kept.get((agent.agent_id, form))
        if (
            kept is not None
            and kept.source is agent.document
            and (kept.state, kept.methods, kept.certificate) == (state, methods, certificate)
        ):
            return kept.answer
        content_type, write = FORMS[form]
        answer = add_validators(self.answer(write(self._document(agent, state, methods, certificate)), content_type))
        self._kept[agent.agent_id, form] = _Kept(agent.document, state, methods, certificate, answer)
        return answer

    def octets(self, agent: Agent, state: LifecycleState, methods: tuple[str, ...]) -> bytes:
        """
        Return the Identity Document's JSON, from which a merchant manifest's fingerprint is computed in every form.
        """
        return self.identity(agent, state, methods, "json").body or b""

    def _document(
        self, agent: Agent, state: LifecycleState, methods: tuple[str, ...], certificate: str
    ) -> Mapping[str, Any]:
        members = {name: value for name, value in signals(state).items() if value}
        if agent.certificate is not None:
            members["cert_status"] = certificate
        document = documents.build_served_copy(
            agent.document,
            status=state.status.value,
            updated_at=state.since or None,
            methods=methods,
            members=members,
        )
        if "manifest_signature" in document or self._signer is None or self._public is None:
            return document
        return documents.sign_copy(document, self._issuer, self._public, self._signer)


def signals(state: LifecycleState) -> dict[str, Any]:
    """Return the members of an Identity Document about a planned end (companion section 6.3)."""
    if state.status is not LifecycleStatus.DEPRECATED:
        return {}
    return {"successor_agent_id": state.successor, "migration_deadline": state.deadline}
