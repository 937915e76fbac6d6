"""
An Identity Document for people: core v08 section 6.3, AGTP-155.

One HTML page without scripts, references or anything else that a browser
would fetch; every text of the document is escaped, and marks that reorder or
hide text are written out. The trust tier comes first and looks different for each tier.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

TIERS = {
    1: ("verified", "Tier 1: verified", "Others have verified that this agent belongs to its owner."),
    2: ("asserted", "Tier 2: asserted, not verified", "Only the owner's own organization says whose agent this is."),
    3: ("experimental", "Tier 3: experimental", "For development only. Do not rely on this agent."),
}
"""Class, title and meaning of each tier."""

STATES = ("active", "suspended", "deprecated", "retired")

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, bidi marks, surrogates and the like: what fools a reader."""

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{margin:0 0 .25rem;font-size:1.6rem}h2{font-size:1.05rem;margin:1.5rem 0 .25rem}
.domain{color:#555;margin:0 0 1rem}.tier{padding:.75rem 1rem;border-radius:.4rem;border:.2rem solid}
.tier strong{display:block;font-size:1.15rem}.verified{background:#e6f4ea;border-color:#137333;border-style:solid}
.asserted{background:#fef7e0;border-color:#b06000;border-style:dashed}
.experimental,.unknown{background:#fce8e6;border-color:#c5221f;border-style:double}
.state{display:inline-block;padding:.1rem .6rem;border-radius:1rem;background:#eee;font-weight:600}
.active{background:#ceead6}.suspended,.retired{background:#fad2cf}.deprecated{background:#feefc3}
dt{font-weight:600}dd{margin:0 0 .5rem;overflow-wrap:anywhere}code{font-size:.85em}
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def text(value: object) -> str:
    """Any value as HTML text: escaped, and with marks that a reader cannot see written out."""
    shown = "".join(
        mark if unicodedata.category(mark) not in _HIDDEN or mark == "\n" else f"\\u{ord(mark):04x}"
        for mark in str(value)
    )
    return html.escape(shown, quote=True)


def page(document: Mapping[str, Any], digest: str = "") -> str:
    """
    Return the page of an Identity Document without faults: first whose word it is, what it may do, and until when.

    :param document: in the core shape, as it is served.
    :param digest: SHA-256, hex, of the document as ``format=json`` gives it; empty: it is not shown.
    """
    name = text(document.get("name", ""))
    domain = text(document.get("org_domain") or document.get("principal_id") or "no domain stated")
    state = str(document.get("status", ""))
    parts = [
        f"<h1>{name}</h1>",
        f'<p class="domain">{domain}</p>',
        _tier(document),
        f'<p>Lifecycle: <span class="state {state if state in STATES else "unknown"}">{text(state)}</span></p>',
        "<h2>Who says so</h2>",
        _list(_issuers(document)),
        "<h2>Scopes</h2>",
        _list(_scopes(document)),
        "<h2>Validity</h2>",
        _list(_validity(document)),
        f"<h2>What it does</h2><p>{text(document.get('description') or 'Nothing is stated.')}</p>",
        _list(_facts(document)),
        "<h2>Capabilities</h2>",
        _items(document.get("capabilities")),
        "<h2>Methods</h2>",
        _items(document.get("methods")),
        *((_verifying(digest, document),) if digest else ()),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{name} ({domain})</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _tier(document: Mapping[str, Any]) -> str:
    tier = document.get("trust_tier")
    look, title, meaning = TIERS.get(
        tier if type(tier) is int else 0, ("unknown", "Trust tier not stated", "Nothing is known of who is behind it.")
    )
    parts = [f"<strong>{text(title)}</strong>", text(meaning)]
    path = document.get("verification_path")
    if path:
        parts.append(f"<br>Verification: {text(path)}")
    warning = document.get("trust_warning")
    if warning:
        parts.append(f"<br><b>Warning: {text(warning)}</b> {text(document.get('trust_explanation') or '')}")
    return f'<div class="tier {look}" role="note">{"".join(parts)}</div>'


def _verifying(digest: str, document: Mapping[str, Any]) -> str:
    """Return the section on how to verify the document: this page is drawn from it and proves nothing."""
    agent_id = text(document.get("agent_id", ""))
    return (
        "<h2>How to verify it</h2>"
        "<p>This page was drawn from a JSON document, which is what is signed: this address with "
        "<code>?format=json</code>. Its SHA-256 is</p>"
        f"<p><code>{text(digest)}</code></p>"
        "<p>The field <code>Document-Signature</code> of that answer covers its octets, and "
        f"<code>agtp resolve agtp://{agent_id}</code> checks the document, its signatures and who made them.</p>"
    )


def _issuers(document: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "Issuer", document.get("issuer")
    yield "Document signed by", document.get("manifest_issuer")
    yield "Principal organization", document.get("principal")
    yield "Owner", document.get("owner_id")


def _validity(document: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "Active since", document.get("issued_at")
    yield "Last changed", document.get("updated_at")
    yield "Certificate", document.get("cert_status")
    yield "Successor", document.get("successor_agent_id")
    yield "Migrate before", document.get("migration_deadline")


def _facts(document: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "Trust score", document.get("trust_score")
    yield "Governance zone", document.get("governance_zone")
    yield "Role", document.get("role")
    yield "Package", document.get("package_integrity_hash")
    yield "Agent-ID", document.get("agent_id")


def _scopes(document: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    """Scopes by category: the namespace before the last segment."""
    groups: dict[str, list[str]] = {}
    for token in sorted(map(str, document.get("scopes_accepted") or ())):
        category, _, action = token.rpartition(":")
        groups.setdefault(category, []).append(action)
    for category, actions in groups.items():
        yield category, ", ".join(actions)


def _list(facts: Iterable[tuple[str, object]]) -> str:
    shown = [f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts if value not in (None, "", [])]
    return f"<dl>{''.join(shown)}</dl>" if shown else "<p>None.</p>"


def _items(values: object) -> str:
    listed = values if isinstance(values, list) else []
    return f"<p>{', '.join(f'<code>{text(value)}</code>' for value in listed)}</p>" if listed else "<p>None.</p>"
