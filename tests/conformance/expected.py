"""Which cases notice which defect, and no other of those that are run."""

from __future__ import annotations

from collections.abc import Mapping

RECORDS = ("audit.*", "status.*", "headers.*", "inspect.audit-*", "inspect.chain-*")
"""Where a record of another content shows."""

EXPECTED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wrong-audit-id": (
        RECORDS,
        "audit.audit-id-is-hash audit.fits-the-answer audit.records-differ inspect.audit-of-inspect "
        "inspect.audit-of-malformed inspect.audit-of-refusal inspect.audit-payload "
        "inspect.audit-returns-record inspect.chain-is-signed status.logged",
    ),
    "no-record": (
        RECORDS,
        "audit.agent-chain-grows audit.algorithm audit.audit-id-is-hash audit.compact-form "
        "audit.fits-the-answer audit.header-is-json audit.issued-at audit.method-is-the-requests "
        "audit.no-contract-without-contract audit.no-credentials audit.payload-agent-id "
        "audit.payload-issued-at "
        "audit.payload-method audit.payload-previous-audit-id audit.payload-request-hash "
        "audit.payload-response-id audit.payload-result-hash audit.payload-server-id audit.payload-status "
        "audit.request-hash audit.request-hash-differs audit.request-hash-recomputed audit.result-hash "
        "audit.server-is-the-headers audit.signature-covers-payload audit.signature-verifies "
        "audit.signed-where-keys-are-published audit.status-is-the-answers audit.task-id-recorded "
        "headers.authorization-not-recorded headers.every-attribution-record inspect.audit-payload "
        "inspect.audit-returns-record inspect.chain-head inspect.chain-walk",
    ),
    "unsigned-record": (
        RECORDS,
        "audit.agent-chain-grows audit.signed-where-keys-are-published inspect.audit-of-inspect "
        "inspect.audit-of-malformed inspect.audit-of-refusal inspect.audit-payload "
        "inspect.audit-returns-record inspect.chain-head status.logged",
    ),
    "forged-record": (
        RECORDS,
        "audit.agent-chain-grows audit.signature-verifies inspect.audit-of-inspect inspect.audit-of-malformed "
        "inspect.audit-of-refusal inspect.audit-payload inspect.audit-returns-record "
        "inspect.chain-head inspect.chain-is-signed status.logged",
    ),
    "broken-chain": (
        RECORDS,
        "audit.agent-chain-grows inspect.audit-of-inspect inspect.audit-of-malformed inspect.audit-of-refusal "
        "inspect.audit-payload inspect.audit-returns-record inspect.chain-head inspect.chain-is-signed "
        "inspect.chain-walk status.logged",
    ),
    "result-hash-of-another-body": (
        RECORDS,
        "audit.agent-chain-grows audit.fits-the-answer audit.result-hash inspect.audit-of-inspect "
        "inspect.audit-of-malformed inspect.audit-of-refusal inspect.audit-payload "
        "inspect.audit-returns-record inspect.chain-head inspect.chain-is-signed status.logged",
    ),
    "response-id-repeated": (
        RECORDS,
        "audit.agent-chain-grows headers.response-ids-differ inspect.audit-of-inspect "
        "inspect.audit-of-malformed inspect.audit-of-refusal inspect.audit-payload "
        "inspect.audit-returns-record "
        "inspect.chain-head inspect.chain-is-signed status.logged",
    ),
    "no-server-id": (
        RECORDS,
        "audit.server-is-the-headers headers.every-server-id headers.server-id-is-one",
    ),
    "404-for-459": (
        ("catalog.refused-*", "status.*", "wire.pipelined-*"),
        "catalog.refused-33-letters catalog.refused-digits catalog.refused-experimental "
        "catalog.refused-extension-of-known catalog.refused-http-head catalog.refused-http-options "
        "catalog.refused-lower-case catalog.refused-mixed-case catalog.refused-prefix-of-known "
        "catalog.refused-profile "
        "catalog.refused-two-letters catalog.refused-underscore catalog.refused-unknown "
        "status.459-names-catalog status.459-names-method status.logged status.specific-459-before-404 "
        "status.specific-459-before-405 status.specific-459-before-460 wire.pipelined-mixed",
    ),
    "403-for-262": (
        ("headers.scope-*", "status.*", "endpoint.scope-*"),
        "endpoint.scope-before-schema endpoint.scope-not-by-impact headers.scope-narrowed "
        "headers.scope-overclaimed headers.scope-partly-overclaimed",
    ),
    "scope-not-enforced": (
        ("headers.scope-*", "status.*", "endpoint.scope-*", "policy.*"),
        "endpoint.scope-before-schema endpoint.scope-not-by-impact headers.scope-narrowed "
        "headers.scope-overclaimed headers.scope-partly-overclaimed policy.scope-required-for-invocation",
    ),
    "leaked-segment-accepted": (
        ("path.*", "status.*"),
        "path.form-empty-segment path.form-trailing-slash path.form-trailing-slash-known "
        "path.form-two-trailing path.leak-capital path.leak-escaped-letter path.leak-first-segment "
        "path.leak-floor-method path.leak-hyphen path.leak-last-segment path.leak-middle-segment "
        "path.leak-underscores "
        "path.leak-upper-case path.leak-with-number-path path.leak-with-query status.460-names-segment "
        "status.specific-460-before-404",
    ),
    "schema-not-enforced": (
        ("endpoint.schema-*", "inspect.audit-*", "status.4*"),
        "endpoint.schema-bound endpoint.schema-missing endpoint.schema-names-member endpoint.schema-type "
        "endpoint.schema-undeclared inspect.audit-not-hex inspect.audit-number inspect.audit-path "
        "inspect.audit-short-id inspect.audit-upper-case inspect.audit-without-id status.422-missing-parameter",
    ),
    "unknown-agent-served": (
        ("identity.*", "status.*", "lifecycle.*-anonymous"),
        "identity.401-names-reason identity.certificate-and-header-agree "
        "identity.hosted-id-with-other-certificate identity.never-inherited "
        "identity.unknown-refused-everywhere lifecycle.activate-anonymous lifecycle.deactivate-anonymous "
        "lifecycle.deprecate-anonymous lifecycle.reinstate-anonymous lifecycle.revoke-anonymous "
        "status.401-anonymous status.401-unknown-agent",
    ),
    "two-lengths-accepted": (
        ("wire.length-*", "wire.field-*"),
        "wire.length-twice-apart wire.length-twice-different wire.length-twice-equal "
        "wire.length-twice-other-case wire.length-twice-reversed",
    ),
    "transfer-encoding-ignored": (
        ("wire.encoding-*", "wire.length-*"),
        "wire.encoding-chunked-and-length wire.encoding-hidden-vertical-tab wire.encoding-identity "
        "wire.encoding-length-after",
    ),
    "removed-field": (
        ("headers.*",),
        "headers.every-no-version-fields headers.removed-agtp-status",
    ),
    "task-id-dropped": (
        ("headers.*", "wire.field-*"),
        "headers.task-id-echoed headers.task-id-on-refusals wire.field-lower-case wire.field-no-space "
        "wire.field-spaces wire.field-upper-case",
    ),
    "untyped-body": (
        ("headers.*", "manifest.*", "identity.document-*"),
        "headers.every-content-type identity.document-media-type manifest.content-type",
    ),
    "no-catalog-version": (
        ("manifest.*",),
        "manifest.catalog-version.current manifest.signature-verifies",
    ),
    "tampered-manifest": (
        ("manifest.*",),
        "manifest.signature-verifies",
    ),
    "agents-listed-without-warning": (
        ("discovery.agents-*",),
        "discovery.agents-match-documents discovery.agents-trust-warning",
    ),
    "handler-published": (
        ("manifest.*",),
        "manifest.endpoint-projection.handler manifest.signature-verifies",
    ),
    "manifest-signed-out-of-order": (
        ("manifest.*",),
        "manifest.signature-verifies",
    ),
    "genesis-hashed-out-of-order": (
        ("identity.*",),
        "identity.genesis-agent-id identity.genesis-matches-document identity.genesis-of-addressed "
        "identity.genesis-signature identity.genesis-stable",
    ),
    "pipelined-out-of-order": (
        ("wire.pipelined-*", "wire.three-*", "wire.line-plain", "wire.not-later"),
        "wire.not-later wire.pipelined-in-order wire.pipelined-mixed",
    ),
    "octets-after-answer": (
        ("wire.nothing-*", "wire.three-*", "wire.line-plain", "wire.connection-*"),
        "wire.nothing-after-answer wire.three-on-one-connection",
    ),
}
"""Defect to the patterns of the cases that are run, and the ids of those that fail."""
