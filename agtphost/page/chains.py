"""Show evidence: chains, the tree over all records, and its checkpoint; the browser verifies a range of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import ago, brief


async def draw(visit: PageVisit) -> PageView:
    """Show the tree and each chain."""
    checkpoint, vitals, chains, last = await gather_replies(
        visit.ask.inspect("checkpoint"),
        visit.ask.inspect("vitals"),
        visit.ask.inspect("chains"),
        visit.ask.ask("QUERY", "/verifications"),
    )
    stated: list[PageReply] = []
    if last.result.get("verification"):
        # The search for its record is expensive and mostly in vain.
        asked = {"method": "CONFIRM", "path": "/verifications", "status": 200}
        stated = await gather_replies(visit.ask.inspect("records", **asked, limit=1))
    return PageView(
        title="Evidence",
        body=[_tree(checkpoint, vitals), _last_verification(last, stated), _chains(chains), _commands()],
    )


def _last_verification(reply: PageReply, stated: Sequence[PageReply]) -> Tag:
    """Show the result of the last verification with the command that was put on record."""
    title = "Last audit verify"
    if not reply.ok:
        return elements.refusal_section(title, reply)
    said = reply.result.get("verification")
    if not isinstance(said, dict):
        none = tags.p(
            "No verification was recorded yet: ", tags.code("agtp audit verify --record"), ".", class_="empty"
        )
        return elements.section(title, none)
    records = [entry for each in stated for entry in each.entries("records")]
    pairs: list[tuple[str, Any]] = [
        ("Outcome", elements.state("verified" if said.get("verified") is True else "does not verify")),
        ("Records", said.get("records")),
        ("Faults", said.get("faults")),
        ("Of", said.get("source") or "-"),
        ("When", f"{said.get('stated_at')}, {ago(said.get('stated_at'))} ago"),
        ("By", brief(said.get("stated_by"), 16)),
        (
            "Record",
            elements.call_link(records[0].get("audit_id")) if records else "not among the newest",
        ),
    ]
    return elements.section(
        title, tags.p("This is a statement of the person who ran it, not of the host."), elements.facts(pairs)
    )


def _tree(reply: PageReply, vitals: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("The tree over all records", reply)
    said = reply.result
    ages = vitals.result.get("witness_ages")
    pairs: list[tuple[str, Any]] = [
        ("Records in the newest checkpoint", said.get("size")),
        ("Root", said.get("root")),
        *(
            (f"Cosigned by {name}", "never" if age is None else f"{age:.0f} s ago")
            for name, age in (ages or {}).items()
        ),
    ]
    return elements.section(
        "The tree over all records",
        elements.facts(pairs),
        tags.h3("Checkpoint"),
        elements.code(str(said.get("checkpoint"))),
    )


def _chains(reply: PageReply) -> Tag:
    if not reply.ok:
        return elements.refusal_section("Chains", reply)
    entries = reply.entries("chains")
    rows = [
        (
            entry.get("name"),
            entry.get("seq", 0),
            elements.call_link(entry["audit_id"]) if entry.get("audit_id") else "-",
        )
        for entry in entries
    ]
    each = [_one(entry) for entry in entries if entry.get("audit_id")]
    return elements.section(
        "Chains", elements.table("Chains and their heads", ("Chain", "Records", "Newest"), rows), *each
    )


def _one(entry: Mapping[str, Any]) -> Tag:
    chain = str(entry.get("agent_id") or "host")
    return tags.section(
        tags.h3(f"Chain of {entry.get('name')}"),
        tags.div(**{"data-verify-range": chain}),
        tags.p(tags.a("Show records", href=f"/calls?chain={elements.in_query(chain)}")),
        _export(chain, entry),
    )


def _export(chain: str, entry: Mapping[str, Any]) -> Tag:
    """Show the export form; empty fields mean the whole chain."""
    ident, newest = elements.to_id(chain), entry.get("seq", 0)
    number = {"inputmode": "numeric", "pattern": "[0-9]*", "autocomplete": "off"}
    return tags.form(
        tags.input(type="hidden", name="chain", value=chain),
        elements.field("from", "From record", f"from-{ident}", placeholder="1", **number),
        elements.field("to", "To record", f"to-{ident}", placeholder=str(newest), **number),
        tags.p(tags.button("Export", type="submit"), class_="buttons"),
        method="get",
        action="/evidence/export",
        **{"aria-label": f"Export the chain of {entry.get('name')}"},
    )


def _commands() -> Tag:
    lines = (
        "agtp audit verify --file records.jsonl --signing-key signing.pub\nagtp audit verify\nagtp audit export --help"
    )
    return elements.section("As commands: of an export, and of the whole store", elements.code(lines))
