"""
What a browser verifies by itself: records with their neighbours, proofs and keys, as JSON.

Every record and every proof is read by INSPECT, as the person who looks: who
may read what is decided there, and that it was read is on record. Keys are no
records; the script believes them by the fingerprint that the link named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.identity.keys import VerifyingKey
from agtphost.page.asking import Asker, Reply
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.reasons import Reason

HOST = "host"
"""What INSPECT calls the host's own chain, which has no Agent-ID."""

MOST_RECORDS = 500
"""Of one range."""

FORMAT = "agtp-inclusion-proof/1"
"""Of a proof to keep: what ``agtp audit prove --file`` verifies."""

_LATER = (Reason.CHECKPOINT_PENDING, Reason.CHECKPOINT_MISSING)
"""A record of just now is in a checkpoint a moment later."""

_RECORD = ("audit_id", "format", "jws", "cose", "kind", "seq")
"""What is verified of a record; what else INSPECT says about it is the host's word."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Public keys that evidence is verified with."""

    own: Callable[[], Sequence[VerifyingKey]]
    """The host's present signing key; empty where its records are not signed."""

    links: Callable[[], Sequence[Mapping[str, str]]]
    """The statements that link it to those before it, the oldest first."""

    witnesses: Callable[[], Sequence[tuple[str, VerifyingKey]]]
    """Who cosigns this host's checkpoints, as far as their keys are known: address and key."""


class Refused(Exception):
    """The host does not tell it; :attr:`reply` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.explanation)
        self.reply = reply


PATHS = ("/evidence/record", "/evidence/chain", "/evidence/proof")
"""Where a script asks."""

Query = Mapping[str, str]


async def answer(path: str, query: Query, ask: Asker, keys: Keys) -> tuple[int, dict[str, Any]]:
    """
    What one of :data:`PATHS` answers.

    :return: the status in AGTP's numbers, and the document; of a refusal its reason and explanation.
    """
    audit_id, name = query.get("audit_id", ""), query.get("chain", "")
    limit, before = (count(query.get(each, "")) for each in ("limit", "before"))
    if not (name if path == "/evidence/chain" else is_audit_id(audit_id)):
        return 422, {"reason": Reason.INVALID_PARAMETER, "explanation": "Name a record or a chain."}
    try:
        if path == "/evidence/chain":
            return 200, await chain(ask, keys, name, limit or MOST_RECORDS, before)
        return 200, await (record(ask, keys, audit_id) if path == "/evidence/record" else proof(ask, audit_id))
    except Refused as refused:
        reply = refused.reply
        return reply.status, {"reason": reply.reason, "explanation": reply.explanation, "remedy": reply.remedy}


def count(text: str) -> int | None:
    """A number of at most nine digits, above 0; None for everything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 and int(text) else None


async def record(ask: Asker, keys: Keys, audit_id: str) -> dict[str, Any]:
    """
    One record, the one before it, and its place in the tree.

    :raises Refused: the record is not shown.
    """
    found = _told(await ask.inspect("audit", audit_id=audit_id)).result
    # Of the signed text itself, and by the script once more: this only says where to look for its neighbour.
    payload = found.get("payload")
    chain = str(payload.get("agent_id", "")) if isinstance(payload, dict) else ""
    seq = found.get("seq")
    before = []
    if isinstance(seq, int) and seq > 1:
        before = (await ask.inspect("chain", **_named(chain or HOST), before=seq, limit=1)).entries("records")
    return {
        **_known(keys),
        "chain": chain,
        "record": _shown(found),
        "before": _shown(before[0]) if before else None,
        **await _included(ask, audit_id),
    }


async def chain(ask: Asker, keys: Keys, name: str, limit: int, before: int | None = None) -> dict[str, Any]:
    """
    The newest records of a chain, newest first, and the place of the newest of them in the tree.

    :param name: an Agent-ID, or :data:`HOST`.
    :param limit: at most :data:`MOST_RECORDS`.
    :param before: a number in the chain; None for its end.
    :raises Refused: they are not shown.
    """
    listed, damaged = await _readable(ask, name, min(limit, MOST_RECORDS), before)
    records = [_shown(entry) for entry in listed]
    return {
        **_known(keys),
        "chain": "" if name == HOST else name,
        "records": records,
        **({"damaged": damaged} if damaged else {}),
        **(await _included(ask, str(records[0]["audit_id"])) if records else {}),
    }


async def _readable(ask: Asker, name: str, limit: int, before: int | None) -> tuple[Sequence[Mapping[str, Any]], str]:
    """
    The newest records, as far back as they are what was signed, and what the host says of the one before these.

    Of one that is not, the host refuses all that are asked for with it: it is looked for by halves, ten times at most.

    :return: the second is empty where there is no such record.
    :raises Refused: for any other reason.
    """
    asked: dict[str, Any] = {**_named(name), "before": before}
    reply = await ask.inspect("chain", **asked, limit=limit)
    if reply.ok or reply.reason != Reason.RECORD_DAMAGED:
        return _told(reply).entries("records"), ""
    found = (await ask.inspect("chain", **asked, limit=1)).entries("records")
    if found:
        # Each question is a record as well: from here on the same records are asked for.
        asked["before"] = int(found[0]["seq"]) + 1
        good, bad = 1, limit
        while bad - good > 1:
            middle = (good + bad) // 2
            tried = await ask.inspect("chain", **asked, limit=middle)
            good, bad = (middle, bad) if tried.ok else (good, middle)
            found = tried.entries("records") if tried.ok else found
    return found, reply.explanation


async def proof(ask: Asker, audit_id: str) -> dict[str, Any]:
    """
    A proof to keep, in the form of ``agtp audit prove -o``.

    :raises Refused: there is none, or none yet.
    """
    found = _told(await ask.inspect("audit", audit_id=audit_id)).result
    place = _told(await ask.inspect("inclusion", audit_id=audit_id)).result
    return {
        "format": FORMAT,
        "record": _shown(found),
        **{name: place.get(name) for name in ("index", "proof", "checkpoint")},
    }


async def _included(ask: Asker, audit_id: str) -> dict[str, Any]:
    reply = await ask.inspect("inclusion", audit_id=audit_id)
    if reply.ok:
        return {"inclusion": dict(reply.result)}
    waiting = reply.reason in _LATER
    said = reply.explanation or f"the host answered {reply.status} {reply.reason}"
    return {"pending" if waiting else "unproven": said}


def _known(keys: Keys) -> dict[str, Any]:
    return {
        "keys": [key.text for key in keys.own()],
        "links": [dict(link) for link in keys.links()],
        "witnesses": [{"name": name, "key": key.text} for name, key in keys.witnesses()],
    }


def _told(reply: Reply) -> Reply:
    if not reply.ok:
        raise Refused(reply)
    return reply


def _named(name: str) -> dict[str, str]:
    return {"chain": HOST} if name == HOST else {"agent_id": name}


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _RECORD if name in entry}
