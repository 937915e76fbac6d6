"""
The strict parser of cards (HAIDIP): it reports all faults, each with the member that has it.

A card is untrusted input. Names are shown to people, schemas are run on every call, and the endpoint is where calls go.
So each member is bounded, and text that would be displayed as something else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.schemas import SchemaError, compile_schema
from agtphost.registry.card import API_KEY, DEFAULT, MTLS, NONE, OAUTH2, AgentCard, CardOperation
from agtphost.registry.endpoints import EndpointChecker, EndpointFault
from agtphost.registry.shorthand import NotASchema, is_plain, schema_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.escaping import escape

LONGEST = 256 << 10
"""Octets of a card; the longest real ones have a tenth of it."""

MOST_FAULTS = 16
MOST_OPERATIONS = 200
MOST_WORDS = 100
"""Capabilities, tags, languages or protocols of one card."""

LONGEST_ID = 256
LONGEST_NAME = 200
LONGEST_DESCRIPTION = 4_000
LONGEST_WORD = 100
LONGEST_TEXT = 500
MOST_COMPILED = 128 << 10
"""Octets of all schemas of a card together."""

_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("none", "public", "noauth"), NONE),
    **dict.fromkeys(("apikey", "bearer", "token", "http"), API_KEY),
    **dict.fromkeys(("oauth2", "oauth", "oidc", "openidconnect"), OAUTH2),
    **dict.fromkeys(("mtls", "mutualtls", "certificate", "agtp"), MTLS),
}
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,7}", re.ASCII)
_ID = re.compile(r"[\x21-\x7e]{1,256}", re.ASCII)
_OPERATION = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_MARKUP = frozenset('"<>\\^`{|}')


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a card."""

    member: str
    """Such as ``operations[2].name``; empty for the whole card."""

    message: str
    """A predicate: ``is longer than 200 characters``."""

    def __str__(self) -> str:
        return f"{self.member or 'the card'} {self.message}"


class CardFaults(ValueError):
    """
    The card is invalid.

    :param faults: at most :data:`MOST_FAULTS`, in the order in which members are checked.
    """

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = tuple(faults)


def authentication_of(value: Any) -> str | None:
    """Return the kind of authentication that a word means, in any spelling; None if it is unknown."""
    if not isinstance(value, str) or len(value) > 32:
        return None
    return _WORDS.get(re.sub(r"[\s_.-]+", "", value.lower()))


def read(octets: bytes, endpoints: EndpointChecker) -> AgentCard:
    """
    Parse a card.

    :param octets: UTF-8 JSON.
    :param endpoints: the endpoint URLs that are allowed.
    :raises CardFaults: the card is invalid.
    """
    try:
        document = jsontext.decode(octets, max_depth=jsontext.SIGNED_DEPTH)
    except jsontext.JSONTextError as error:
        raise CardFaults([Fault("", f"is not JSON: {error}")]) from None
    if not isinstance(document, dict):
        raise CardFaults([Fault("", "must be a JSON object")])
    return _CardReader(document, endpoints).card(octets)


class _CardReader:
    def __init__(self, document: Mapping[str, Any], endpoints: EndpointChecker) -> None:
        self._document = document
        self._endpoints = endpoints
        self._faults: list[Fault] = []
        self._schemas = 0

    def card(self, octets: bytes) -> AgentCard:
        found = AgentCard(
            octets=octets,
            id=self._id(),
            name=self._text("name", LONGEST_NAME, required=True),
            description=self._text("description", LONGEST_DESCRIPTION, required=True, keep="\n\t"),
            capabilities=self._words("capabilities", required=True),
            endpoint=self._endpoint("endpoint", self._document.get("endpoint"), required=True),
            authentication=self._authentication(),
            operations=self._operations(),
            tags=self._words("tags"),
            languages=self._words(
                "supported_languages", _LANGUAGE.fullmatch, "must be a language tag such as en or zh-Hans"
            ),
            provider=self._provider(),
            version=self._text("version", LONGEST_WORD),
            document=self._document,
        )
        self._words("protocols")
        for name in ("license", "last_update"):
            self._text(name, LONGEST_TEXT)
        if len(octets) > LONGEST and not self._faults:
            self._report("", f"is longer than {LONGEST} octets")
        if self._faults:
            raise CardFaults(self._faults)
        return found

    def _report(self, member: str, message: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(Fault(member, message))

    # Members

    def _id(self) -> str:
        value = self._document.get("id")
        if not isinstance(value, str) or not value:
            self._report("id", "is missing" if value is None else "must be a text")
        elif len(value) > LONGEST_ID:
            self._report("id", f"is longer than {LONGEST_ID} characters")
        elif _ID.fullmatch(value) is None or _MARKUP & set(value) or value.strip("./") == "":
            self._report("id", "must be a slug, UUID or URI: visible ASCII characters, without quotes and brackets")
        else:
            return value
        return ""

    def _text(self, member: str, longest: int, *, required: bool = False, keep: str = "") -> str:
        value = self._document.get(member)
        if value is None:
            if required:
                self._report(member, "is missing")
            return ""
        return self._check_text(member, value, longest, required=required, keep=keep)

    def _check_text(self, member: str, value: Any, longest: int, *, required: bool = False, keep: str = "") -> str:
        """Check a text that is shown to people unchanged; return an empty text if it is invalid."""
        if not isinstance(value, str):
            self._report(member, "must be a text")
        elif required and not value.strip():
            self._report(member, "is empty")
        elif len(value) > longest:
            self._report(member, f"is longer than {longest} characters")
        elif escape(value, keep=keep) != value:
            self._report(
                member,
                "has control, invisible or direction characters, which would display it as something else: remove them",
            )
        else:
            return value
        return ""

    def _words(
        self,
        member: str,
        fits: Callable[[str], object] | None = None,
        unfit: str = "",
        *,
        required: bool = False,
    ) -> tuple[str, ...]:
        value = self._document.get(member)
        if value is None:
            if required:
                self._report(member, "is missing")
            return ()
        if not isinstance(value, list):
            self._report(member, "must be an array")
            return ()
        if len(value) > MOST_WORDS:
            self._report(member, f"has more than {MOST_WORDS} entries")
            return ()
        found = []
        for at, each in enumerate(value):
            word = self._check_text(f"{member}[{at}]", each, LONGEST_WORD, required=True)
            if word and fits is not None and not fits(word):
                self._report(f"{member}[{at}]", unfit)
            found.append(word)
        return tuple(found)

    def _authentication(self) -> str:
        said = self._document.get("authentication")
        found = authentication_of(said)
        if found is None:
            missing = "is missing" if said is None else "is not known"
            self._report("authentication", f"{missing}: use none, API key, OAuth2 or mTLS")
        return found or NONE

    def _provider(self) -> str:
        value = self._document.get("provider")
        if isinstance(value, dict):
            # A2A cards have an object here.
            named = next((name for name in ("name", "organization") if name in value), "name")
            return self._check_text(f"provider.{named}", value.get(named), LONGEST_TEXT)
        return self._text("provider", LONGEST_TEXT)

    def _endpoint(self, member: str, value: Any, *, required: bool = False) -> str:
        if value is None:
            if required:
                self._report(member, "is missing")
            return ""
        try:
            return self._endpoints.check(value)
        except EndpointFault as error:
            self._report(member, str(error))
            return ""

    # Operations

    def _operations(self) -> tuple[CardOperation, ...]:
        top = CardOperation(
            name=DEFAULT,
            description=str(self._document.get("description") or "")[:LONGEST_DESCRIPTION],
            input_schema=self._schema("", self._document, "input_schema", "inputs"),
            output_schema=self._schema("", self._document, "output_schema", "outputs"),
        )
        listed = self._document.get("operations")
        if listed is None:
            return (top,)
        if not isinstance(listed, list):
            self._report("operations", "must be an array")
            return (top,)
        if len(listed) > MOST_OPERATIONS:
            self._report("operations", f"has more than {MOST_OPERATIONS} entries")
            return (top,)
        found: dict[str, CardOperation] = {}
        for at, each in enumerate(listed):
            operation = self._operation(f"operations[{at}]", each)
            if operation is not None and operation.name in found:
                self._report(f"operations[{at}].name", "is the name of two operations")
            elif operation is not None:
                found[operation.name] = operation
            if len(self._faults) >= MOST_FAULTS:
                break
        return tuple(found.values()) or (top,)

    def _operation(self, place: str, given: Any) -> CardOperation | None:
        if not isinstance(given, dict):
            self._report(place, "must be an object")
            return None
        name = given.get("name")
        if not isinstance(name, str) or _OPERATION.fullmatch(name) is None or "/" in name:
            what = "is missing" if name is None else "must have 1 to 128 visible ASCII characters without a slash"
            self._report(f"{place}.name", what)
            return None
        described = given.get("description", "")
        return CardOperation(
            name=name,
            description=self._check_text(f"{place}.description", described, LONGEST_DESCRIPTION, keep="\n\t"),
            input_schema=self._schema(place, given, "input_schema", "inputs"),
            output_schema=self._schema(place, given, "output_schema", "outputs"),
            endpoint=self._endpoint(f"{place}.endpoint", given.get("endpoint")),
        )

    def _schema(self, place: str, given: Mapping[str, Any], *members: str) -> Mapping[str, Any] | None:
        member = next((name for name in members if given.get(name) is not None), None)
        if member is None:
            return None
        where = f"{place}.{member}" if place else member
        try:
            schema = schema_of(given[member])
        except NotASchema as error:
            self._report(f"{where}.{error.member}" if error.member else where, str(error))
            return None
        if is_plain(given[member]):
            # A few type words cannot make a costly schema, so it is not compiled here.
            return schema
        size = len(jsontext.encode(schema))
        self._schemas += size
        if self._schemas > MOST_COMPILED:
            self._report(where, f"and the schemas before it have more than {MOST_COMPILED} octets")
            return None
        try:
            plain = schema.get("type", "object") == "object"
            compile_schema(schema, role="tool" if plain else "output", share=1)
        except SchemaError as error:
            fault = error.faults[0]
            self._report(f"{where}{fault.pointer}", fault.message)
            return None
        return schema
