"""
Provide what a browser verifies itself: records with their neighbours, proofs and keys, as JSON.

Every record and proof is read by INSPECT in the name of the person, which decides on and records the access. Keys are
not records; the script trusts them by the fingerprint in the link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.identity.keys import VerifyingKey
from agtphost.page.person_client import PageReply, PersonClient
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.reasons import Reason

HOST = "host"
"""The name in INSPECT of the host's own chain, which has no Agent-ID."""

LISTED = 200
"""Records of one list of a view."""

MOST_RECORDS = 500
"""Records of one range."""

FORMAT = "agtp-inclusion-proof/1"
"""The format of a proof file, which ``agtp audit prove --file`` verifies."""

_PENDING_REASONS = (Reason.CHECKPOINT_PENDING, Reason.CHECKPOINT_MISSING)
"""Reasons that a new record is not in a checkpoint yet."""

_RECORD_MEMBERS = ("audit_id", "format", "jws", "cose", "kind", "seq")
"""Members of a record that are verified; the other members in INSPECT are unsigned statements of the host."""


@dataclass(frozen=True, kw_only=True)
class EvidenceKeys:
    """The public keys with which evidence is verified."""

    own: Callable[[], Sequence[VerifyingKey]]
    """Returns the host's present signing key; empty where its records are not signed."""

    links: Callable[[], Sequence[Mapping[str, str]]]
    """Returns the statements that link it to earlier keys, the oldest first."""

    witnesses: Callable[[], Sequence[tuple[str, VerifyingKey]]]
    """Returns address and key of the witnesses of this host's checkpoints, as far as the keys are known."""


class EvidenceRefused(Exception):
    """A refusal by the host; :attr:`reply` says why."""

    def __init__(self, reply: PageReply) -> None:
        super().__init__(reply.explanation)
        self.reply = reply


LIST_PATH = "/evidence/list"
"""The path of the records of a view's list."""

PATHS = ("/evidence/record", "/evidence/chain", "/evidence/proof", LIST_PATH)
"""The paths for the script."""

Query = Mapping[str, str]


async def answer(path: str, query: Query, ask: PersonClient, keys: EvidenceKeys) -> tuple[int, dict[str, Any]]:
    """
    Return the answer to one of :data:`PATHS`.

    :return: the AGTP status, and the document; of a refusal its reason and explanation.
    """
    if path == LIST_PATH:
        return await _answer_list(query, ask, keys)
    audit_id, name = query.get("audit_id", ""), query.get("chain", "")
    limit, before = (count(query.get(each, "")) for each in ("limit", "before"))
    if not (name if path == "/evidence/chain" else is_audit_id(audit_id)):
        return 422, {"reason": Reason.INVALID_PARAMETER, "explanation": "Name a record or a chain."}
    try:
        if path == "/evidence/chain":
            return 200, await chain(ask, keys, name, limit or MOST_RECORDS, before)
        return 200, await (record(ask, keys, audit_id) if path == "/evidence/record" else proof(ask, audit_id))
    except EvidenceRefused as refused:
        reply = refused.reply
        return reply.status, {"reason": reply.reason, "explanation": reply.explanation, "remedy": reply.remedy}


async def _answer_list(query: Query, ask: PersonClient, keys: EvidenceKeys) -> tuple[int, dict[str, Any]]:
    """Return the signed octets of the records that a view lists, by the query of its filter."""
    given = {name: word for name, word in query.items() if name not in ("target", "limit", "signed", "before")}
    before = count(query.get("before", ""))
    found = await ask.inspect("records", **{**given, "limit": LISTED, "signed": True, "before": before})
    if not found.ok:
        return found.status, {"reason": found.reason, "explanation": found.explanation, "remedy": found.remedy}
    records = [{**_verified_members(entry), "chain": str(entry.get("chain", ""))} for entry in found.entries("records")]
    return 200, {**_known_keys(keys), "records": records}


def count(text: str) -> int | None:
    """Return a positive number of at most nine digits; None for everything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 and int(text) else None


async def record(ask: PersonClient, keys: EvidenceKeys, audit_id: str) -> dict[str, Any]:
    """
    Return one record, the one before it, and its place in the tree.

    :raises EvidenceRefused: the record is not shown.
    """
    found = _require_success(await ask.inspect("audit", audit_id=audit_id)).result
    # Only to find its neighbour; the script reads the chain from the signed text itself.
    payload = found.get("payload")
    chain = str(payload.get("agent_id", "")) if isinstance(payload, dict) else ""
    seq = found.get("seq")
    before = []
    if isinstance(seq, int) and seq > 1:
        before = (await ask.inspect("chain", **_chain_parameters(chain or HOST), before=seq, limit=1)).entries(
            "records"
        )
    return {
        **_known_keys(keys),
        "chain": chain,
        "record": _verified_members(found),
        "before": _verified_members(before[0]) if before else None,
        **await _inclusion(ask, audit_id),
    }


async def chain(
    ask: PersonClient, keys: EvidenceKeys, name: str, limit: int, before: int | None = None
) -> dict[str, Any]:
    """
    Return the newest records of a chain, newest first, and the place of the newest one in the tree.

    :param name: an Agent-ID, or :data:`HOST`.
    :param limit: at most :data:`MOST_RECORDS`.
    :param before: a number in the chain; None for its end.
    :raises EvidenceRefused: they are not shown.
    """
    listed, damaged = await _read_intact(ask, name, min(limit, MOST_RECORDS), before)
    records = [_verified_members(entry) for entry in listed]
    return {
        **_known_keys(keys),
        "chain": "" if name == HOST else name,
        "records": records,
        **({"damaged": damaged} if damaged else {}),
        **(await _inclusion(ask, str(records[0]["audit_id"])) if records else {}),
    }


async def _read_intact(
    ask: PersonClient, name: str, limit: int, before: int | None
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """
    Return the newest records back to the first damaged one, and the host's explanation of that one.

    The host refuses a whole range because of one damaged record. It is found by bisection, with at most ten requests.

    :return: the second value is empty if all records are intact.
    :raises EvidenceRefused: for any other reason.
    """
    asked: dict[str, Any] = {**_chain_parameters(name), "before": before}
    reply = await ask.inspect("chain", **asked, limit=limit)
    if reply.ok or reply.reason != Reason.RECORD_DAMAGED:
        return _require_success(reply).entries("records"), ""
    found = (await ask.inspect("chain", **asked, limit=1)).entries("records")
    if found:
        # Each request adds a record, so from here on the range is fixed.
        asked["before"] = int(found[0]["seq"]) + 1
        good, bad = 1, limit
        while bad - good > 1:
            middle = (good + bad) // 2
            tried = await ask.inspect("chain", **asked, limit=middle)
            good, bad = (middle, bad) if tried.ok else (good, middle)
            found = tried.entries("records") if tried.ok else found
    return found, reply.explanation


async def proof(ask: PersonClient, audit_id: str) -> dict[str, Any]:
    """
    Return a proof file, in the form of ``agtp audit prove -o``.

    :raises EvidenceRefused: the record has no proof, or none yet.
    """
    found = _require_success(await ask.inspect("audit", audit_id=audit_id)).result
    place = _require_success(await ask.inspect("inclusion", audit_id=audit_id)).result
    return {
        "format": FORMAT,
        "record": _verified_members(found),
        **{name: place.get(name) for name in ("index", "proof", "checkpoint")},
    }


async def _inclusion(ask: PersonClient, audit_id: str) -> dict[str, Any]:
    reply = await ask.inspect("inclusion", audit_id=audit_id)
    if reply.ok:
        return {"inclusion": dict(reply.result)}
    waiting = reply.reason in _PENDING_REASONS
    said = reply.explanation or f"the host answered {reply.status} {reply.reason}"
    return {"pending" if waiting else "unproven": said}


def _known_keys(keys: EvidenceKeys) -> dict[str, Any]:
    return {
        "keys": [key.text for key in keys.own()],
        "links": [dict(link) for link in keys.links()],
        "witnesses": [{"name": name, "key": key.text} for name, key in keys.witnesses()],
    }


def _require_success(reply: PageReply) -> PageReply:
    if not reply.ok:
        raise EvidenceRefused(reply)
    return reply


def _chain_parameters(name: str) -> dict[str, str]:
    return {"chain": HOST} if name == HOST else {"agent_id": name}


def _verified_members(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _RECORD_MEMBERS if name in entry}
