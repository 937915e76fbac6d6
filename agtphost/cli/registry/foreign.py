"""Call any registry that follows HAIDIP, over HTTP, and agents at the endpoints in their cards."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from agtphost.cli.exchange import entries_of
from agtphost.cli.failures import HostRefused, NoConnection, WrongInput
from agtphost.cli.local_files import read_octets
from agtphost.client import blocking_https
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain, split, to_sentence

LONGEST = 8 << 20
"""Most bytes of an answer that are read."""

MOST_PAGES = 1_000
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class RegistryCredentials:
    """Credentials and settings for requests to a registry."""

    token: str = ""
    cert: Path | None = None
    key: Path | None = None
    cacert: Path | None = None
    timeout: float = 60.0


class ForeignRegistry:
    """
    A registry at an address.

    :param url: the address without ``/agents``.
    """

    def __init__(self, url: str, shown: RegistryCredentials) -> None:
        self._url = require_safe_url(url).rstrip("/").removesuffix("/agents")
        self._shown = shown

    def entries(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return all listed entries, from the first page to the last."""
        found: list[dict[str, Any]] = []
        more = {name: ",".join(each) if isinstance(each, list) else each for name, each in asked.items()}
        if "capabilities" in more:
            more["capability"] = more.pop("capabilities")
        for _ in range(MOST_PAGES):
            query = f"?{urlencode(more)}" if more else ""
            page = self._request("GET", f"/agents{query}")
            listed = page if isinstance(page, list) else page.get("agents", page.get("results", page.get("items")))
            found += entries_of(listed, "agents")
            cursor = None if isinstance(page, list) else page.get("next_cursor")
            if not isinstance(cursor, str):
                break
            more["cursor"] = cursor
        return found

    def search(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the results of a search."""
        return entries_of(_object(self._request("POST", "/agents/search", asked)).get("results"), "results")

    def get(self, card_id: str, version: str | None = None) -> tuple[Any, Mapping[str, Any]]:
        """Return a card, and no further fields."""
        query = "" if version is None else f"?version={quote(version)}"
        return self._request("GET", f"{card_path(card_id)}{query}"), {}

    def invoke(self, card_id: str, operation: str | None, given: Mapping[str, Any]) -> tuple[Any, str]:
        """Call an agent through the registry; return its answer, and an empty Audit-ID."""
        named = "invoke" if operation is None else quote(operation, safe="")
        return self._request("POST", f"{card_path(card_id)}/{named}", given), ""

    def add(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Register a card, or the address of one."""
        sent = dict(given)
        if "card" in sent:
            sent["card"] = jsontext.decode(str(sent["card"]).encode())
            sent = sent["card"] if len(sent) == 1 else sent
        return _object(self._request("POST", "/agents", sent))

    def withdraw(self, card_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Withdraw a card."""
        query = f"?successor={quote(str(given['successor']), safe='')}" if "successor" in given else ""
        return _object(self._request("DELETE", f"{card_path(card_id)}{query}"))

    def renew(self, card_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Renew the lease of an agent."""
        return _object(self._request("POST", f"{card_path(card_id)}/heartbeat", given))

    def _request(self, method: str, path: str, value: Any = None) -> Any:
        return send_request(method, f"{self._url}{path}", value, self._shown)


def call_directly(
    card: Mapping[str, Any], operation: str | None, given: Mapping[str, Any], shown: RegistryCredentials
) -> Any:
    """
    Call an agent at the endpoint in its card.

    A card has the address to post to, or the one above ``/invoke``, so the second is tried if the first does not exist.
    """
    known = [each for each in card.get("operations") or () if isinstance(each, dict)]
    chosen = next((each for each in known if each.get("name") == operation), None)
    if operation is not None and known and chosen is None:
        raise WrongInput(f"the card has no operation {operation!r}", "List operations with agtp registry get ID.")
    endpoint = str((chosen or {}).get("endpoint") or card.get("endpoint") or "")
    if not endpoint.startswith(("https:", "http:")):
        raise WrongInput(
            "the agent has no HTTP endpoint", f"Its endpoint is {endpoint or 'missing'}; leave out --direct."
        )
    sent = dict(given)
    if operation is not None and not (chosen or {}).get("endpoint"):
        sent["operation"] = operation
    url = require_safe_url(endpoint)
    try:
        return send_request("POST", url, sent, shown)
    except RegistryRefused as refused:
        if refused.status not in (404, 405) or url.endswith("/invoke"):
            raise
        return send_request("POST", f"{url.rstrip('/')}/invoke", sent, shown)


class RegistryRefused(HostRefused):
    """
    A registry or an agent refused a request, or failed.

    :param status: the HTTP status.
    """

    def __init__(self, status: int, message: str, remedy: str, answer: object) -> None:
        super().__init__(message, remedy, answer=answer)
        self.status = status


def send_request(method: str, url: str, value: Any, shown: RegistryCredentials) -> Any:
    """
    Send one request and return its answer.

    :raises agtphost.cli.failures.CommandError: the request failed, or its answer is not JSON.
    """
    body = None if value is None else json.dumps(value).encode()
    fields = {"Accept": "application/json", "User-Agent": "agtp-registry"}
    if body is not None:
        fields["Content-Type"] = "application/json"
    if shown.token:
        fields["Authorization"] = f"Bearer {shown.token}"
    context, seconds = _context(shown), shown.timeout
    try:
        # The user names the registry, and with --direct the agent, so every address is allowed.
        answer, octets = blocking_https.ask(
            method, url, fields, body, context=context, timeout=seconds, most=LONGEST, addresses=None
        )
    except blocking_https.TooLong:
        message = f"the answer of {urlsplit(url).netloc} is longer than {LONGEST >> 20} MiB"
        raise HostRefused(message) from None
    except OSError as error:
        what, cure = split(error)
        raise NoConnection(f"{urlsplit(url).netloc} cannot be reached: {what}", to_sentence(cure)) from error
    if not 200 <= answer.status < 300:
        raise _to_refusal(answer.status, answer.reason, octets)
    return _decode(octets, url)


def _context(shown: RegistryCredentials) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if shown.cacert is None else str(shown.cacert))
    except OSError as error:
        raise WrongInput(f"--cacert {shown.cacert} cannot be used: {explain(error)}") from error
    if shown.cert is not None:
        key = shown.key or shown.cert.with_suffix(".key")
        try:
            context.load_cert_chain(str(shown.cert), str(key))
        except OSError as error:
            message = f"--cert {shown.cert} and its key {key} cannot be used: {explain(error)}"
            raise WrongInput(message) from error
    return context


def _to_refusal(status: int, phrase: str, octets: bytes) -> RegistryRefused:
    try:
        document = jsontext.decode(octets)
    except jsontext.JSONTextError:
        document = {}
    told = document.get("error") if isinstance(document, dict) else None
    told = told if isinstance(told, dict) else {}
    said = f"{status} {told.get('code') or phrase}: {told.get('message') or 'without an explanation'}"
    remedies = [str(told.get("remedy") or "")]
    if status == 401:
        remedies.append("Give a token with --token-file FILE, or a certificate with --cert FILE.")
    if "field" in told:
        remedies.insert(0, f"The field is {told['field']}.")
    if 300 <= status < 400:
        remedies.append("Redirects are not followed: give the final address.")
    return RegistryRefused(status, said, "\n  ".join(each for each in remedies if each), document)


def _decode(octets: bytes, url: str) -> Any:
    try:
        return jsontext.decode(octets) if octets else {}
    except jsontext.JSONTextError as error:
        raise HostRefused(f"the answer of {urlsplit(url).netloc} is not JSON: {error}") from None


def require_safe_url(url: str) -> str:
    """
    Return a URL that may be called: https, or http on this machine.

    :raises agtphost.cli.failures.CommandError: the URL is any other.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname in LOOPBACK:
        return url
    raise WrongInput(
        f"{url[:80]} is not an address of a registry or agent", "Give one such as https://agents.example.com/registry."
    )


def token_of(file: Path | None) -> str:
    """Return the token in a file; empty for None."""
    if file is None:
        return ""
    token = read_octets(str(file)).decode("utf-8", "replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise WrongInput(f"{file} must have one token of ASCII characters without spaces")
    return token


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise HostRefused("the registry's answer is not an object", "Check that it follows HAIDIP.")
    return value


def card_path(card_id: str) -> str:
    """Return the path of a card."""
    return f"/agents/{quote(card_id, safe='')}"
