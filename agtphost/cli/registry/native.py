"""Call the registry of a host, over AGTP: ``/cards``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agtphost.cli.exchange import call_with_approval, entries_of, open_client, require_success
from agtphost.cli.failures import HostRefused
from agtphost.cli.target import Target

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

PATH = "/cards"
MOST_PAGES = 1_000
"""Most pages of one list that are read, in case a registry always has another page."""

NO_REGISTRY = "Check that the host has a registry: [registry] in its host.toml."
HINTS = {
    "endpoint-unknown": NO_REGISTRY,
    "not-found": "agtp registry ls and agtp registry search TEXT list the ids that you may call.",
}
"""Advice for refusals, in addition to the host's own."""


class NativeRegistry:
    """
    The registry of a host.

    :param target: the host, and the agent to call it as.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def entries(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of all cards that the caller may call."""
        found: list[dict[str, Any]] = []
        more: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            page = self._result("QUERY", PATH, {**asked, **more})
            found += entries_of(page.get("agents"), "agents")
            cursor = page.get("next_cursor")
            if not isinstance(cursor, str):
                break
            more = {"cursor": cursor}
        return found

    def search(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the results of a search, best first."""
        return entries_of(self._result("FIND", PATH, asked).get("results"), "results")

    def get(self, card_id: str, version: str | None = None) -> tuple[Any, Mapping[str, Any]]:
        """Return a card, and the header fields about it."""
        given = {} if version is None else {"version": version}
        reply = self._request("QUERY", card_path(card_id), given)
        named = ("ETag", "Last-Modified", "Card-Version", "Card-State", "Card-Status")
        fields = {name: value for name in named if (value := reply.headers.get(name.lower())) is not None}
        return reply.document, fields

    def invoke(
        self,
        card_id: str,
        operation: str | None,
        given: Mapping[str, Any],
        *,
        stream: Callable[[Reply], object] | None = None,
        **options: Any,
    ) -> tuple[Any, str]:
        """Call an agent; return its answer, and the Audit-ID of the call."""
        asked: dict[str, Any] = {"parameters": dict(given), **({} if operation is None else {"action": operation})}
        with open_client(self._target) as client:
            reply = call_with_approval(
                client, self._target, "EXECUTE", card_path(card_id), asked, stream=stream, **options
            )
        return _require(reply, card_path(card_id)).result, reply.audit_id or ""

    def add(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Register a card, or the address of one."""
        return self._result("REGISTER", PATH, given)

    def withdraw(self, card_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Withdraw a card."""
        return self._result("WITHDRAW", card_path(card_id), given)

    def renew(self, card_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Renew the lease of an agent."""
        return self._result("RENEW", card_path(card_id), given)

    def approve(self, card_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put a changed card into effect, or change whether a card is public."""
        return self._result("APPROVE", card_path(card_id), given)

    def entry(self, card_id: str) -> Mapping[str, Any]:
        """Return the registry's entry of a card."""
        return self._result("QUERY", card_path(card_id), {"form": "entry"})

    def _result(self, method: str, path: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        result = self._request(method, path, given).result
        if not isinstance(result, dict):
            raise HostRefused("the result of the answer is not an object", "Check that the host has the same version.")
        return result

    def _request(self, method: str, path: str, given: Mapping[str, Any]) -> Reply:
        with open_client(self._target) as client:
            return _require(client.call(self._target.uri, method, path, given), path)


def _require(reply: Reply, path: str) -> Reply:
    try:
        return require_success(reply)
    except HostRefused as refused:
        # Each host with a registry answers at the path of its lists.
        hint = NO_REGISTRY if reply.reason == "not-found" and path == PATH else HINTS.get(reply.reason or "")
        refused.remedy = "\n  ".join(line for line in (hint, refused.remedy) if line)
        raise


def card_path(card_id: str) -> str:
    """Return the path of a card."""
    return f"{PATH}/{quote(card_id, safe=':')}"
