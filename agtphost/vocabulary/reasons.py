"""
Every reason that this host refuses for: the stable tokens of its answers and records.

One line each: token, status, where it is from, what it means, and what helps where that is the same at every place
that refuses for it. A refusal of several statuses names the one that it has; the first is the usual one.
``docs/reasons.rst`` is written from here.
"""

from __future__ import annotations

from enum import StrEnum

from agtphost.vocabulary.status import Status


class ForeignReason(str):
    """
    A token that is not the host's own: of an operator's plugin, of an endpoint's declared errors, or another host's.

    :param status: what it is answered with.
    """

    statuses: tuple[Status, ...]
    meaning = ""
    remedy = ""

    def __new__(cls, token: str, status: Status) -> ForeignReason:
        reason = super().__new__(cls, token)
        reason.statuses = (status,)
        return reason


class Reason(StrEnum):
    """The reasons of refusals. Meaning and remedy are the texts where a :class:`agtphost.errors.Refusal` has none."""

    statuses: tuple[Status, ...]
    source: str
    meaning: str
    remedy: str

    def __new__(cls, token: str, status: int | tuple[int, ...], source: str, meaning: str, remedy: str = "") -> Reason:
        reason = str.__new__(cls, token)
        reason._value_ = token
        codes = status if isinstance(status, tuple) else (status,)
        reason.statuses = tuple(Status(code) for code in codes)  # type: ignore[call-arg]
        reason.source, reason.meaning, reason.remedy = source, meaning, remedy
        return reason

    # fmt: off


    # Octets that are not a message of AGTP.
    BODY_TIMEOUT = "body-timeout", 408, "security section 2.1", "The body did not arrive in time."
    BODY_TOO_LARGE = "body-too-large", 400, "core v08 section 5.4.1", "The body has more octets than this host takes."
    CONTENT_LENGTH_MISSING = "content-length-missing", 400, "core v08 section 5.4.1", "A message with a body does not state its length."
    HEADER_BLOCK_TOO_LARGE = "header-block-too-large", 400, "core v08 section 5.4.1", "The header fields together have more octets than this host takes."
    HEADER_LINE_TOO_LARGE = "header-line-too-large", 400, "core v08 section 5.4.1", "A header field has more octets than this host takes."
    HEADER_TIMEOUT = "header-timeout", 408, "security section 2.1", "The header did not arrive in time."
    INCOMPLETE_MESSAGE = "incomplete-message", 400, "core v08 section 5.4.1", "A connection ended within a message; only clients see it."
    INVALID_CONTENT_LENGTH = "invalid-content-length", 400, "core v08 section 5.4.1", "Content-Length is repeated, or is not a number of octets."
    INVALID_HEADER_FIELD = "invalid-header-field", 400, "core v08 section 5.4.1", "A header field does not follow the grammar."
    INVALID_LINE_ENDING = "invalid-line-ending", 400, "core v08 section 5.4.1", "A line does not end with CR LF."
    INVALID_REQUEST_LINE = "invalid-request-line", 400, "core v08 section 5.4.1", "The request line does not follow the grammar."
    INVALID_RESPONSE_LINE = "invalid-response-line", 400, "core v08 section 5.4.1", "The response line does not follow the grammar; only clients see it."
    REQUEST_LINE_TOO_LARGE = "request-line-too-large", 400, "core v08 section 5.4.1", "The request line has more octets than this host takes."
    TOO_MANY_HEADERS = "too-many-headers", 400, "core v08 section 5.4.1", "The message has more header fields than this host takes."
    TRANSFER_ENCODING_REFUSED = "transfer-encoding-refused", 400, "core v08 section 5.4.1", "AGTP has no transfer encodings."
    UNEXPECTED_RESPONSE = "unexpected-response", 400, "core v08 section 5.4.1", "A response came that answers no request; only clients see it."

    # Header fields, bodies and input.
    CONTENT_TYPE_MISSING = "content-type-missing", 400, "core v08 section 5.7", "The request has a body and no Content-Type."
    INVALID_AGENT_ID = "invalid-agent-id", 400, "core v08 section 5.5", "Agent-ID is not 64 lower-case hexadecimal digits.", "Send the canonical Agent-ID, the hash of the agent's Genesis."
    INVALID_AUTHORITY_SCOPE = "invalid-authority-scope", 400, "core v08 section 5.5", "Authority-Scope is malformed.", "Send comma-separated tokens such as documents:query."
    INVALID_BUDGET_LIMIT = "invalid-budget-limit", 400, "core v08 section 5.5", "Budget-Limit is malformed.", "Send amounts such as tokens=5000, USD=10.00."
    INVALID_IDENTIFIER = "invalid-identifier", 400, "core v08 section 5.7", "An identifier is not 1 to 128 visible ASCII characters.", "Send a shorter, printable identifier."
    INVALID_INPUT = "invalid-input", 422, "AGTP-API section 13.2", "The input does not follow the input schema, or cannot be sent on.", "Correct the fields named in faults."
    INVALID_PARAMETER = "invalid-parameter", 422, "core v08 section 5.6", "A parameter has a value that it cannot have."
    INVALID_QUERY = "invalid-query", 400, "AGTP-API section 5.5", "The query string cannot be read.", "Correct the query string."
    LEGACY_PARAMETER_CONFLICT = "legacy-parameter-conflict", 422, "AGTP-API section 3.6", "A parameter contradicts the meaning of the HTTP verb."
    MALFORMED_BODY = "malformed-body", 400, "core v08 section 5.7", "The body cannot be read as its type, or is not a JSON object.", "Send an object."
    MISSING_PARAMETER = "missing-parameter", 422, "core v08 section 5.6", "A parameter that is needed is missing."
    NUMBER_OUT_OF_RANGE = "number-out-of-range", 422, "security section 2.2", "A number that has to be divided is beyond 2**63, or a fraction below 2**-63.", "Send numbers within that range, or as strings where the schema allows it."
    REPEATED_HEADER = "repeated-header", 400, "core v08 section 5.5", "A header field is repeated that may occur only once."
    UNKNOWN_PARAMETER = "unknown-parameter", 422, "AGTP-API section 13.3", "The endpoint has no parameter of that name."
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", 400, "core v08 section 5.7", "This host does not read bodies of that type."
    VALUE_TOO_COSTLY = "value-too-costly", 422, "security section 2.2", "Checking the value against its schema would take longer than one request may.", "Send it in smaller parts, or have the operator write the schema with fewer alternatives and expressions."

    # Who calls.
    AGENT_KEY_MISMATCH = "agent-key-mismatch", 401, "core v08 section 6.5", "The client certificate has another key than the agent's Genesis names as agent_public_key.", "Connect with a certificate for that key, or have a Genesis issued for the new one."
    AGENT_RETIRED = "agent-retired", (410, 422), "core v08 section 5.6", "The calling or addressed agent was revoked. This is final."
    AGENT_SUSPENDED = "agent-suspended", (503, 422), "core v08 section 5.6", "The calling or addressed agent is suspended."
    AGENT_UNAUTHENTICATED = "agent-unauthenticated", 401, "design decision 14", "The calling agent is not known, or not as surely as this needs.", "Send Agent-ID, and present the agent's client certificate."
    ALIAS_CONFLICT = "alias-conflict", 401, "core v08 section 6.1", "The name in the path resolves to another agent than the Agent-ID of the request.", "Address the agent by its canonical Agent-ID, or prove by certificate that you are the one you name."
    ANONYMOUS_DISCOVERY_DISABLED = "anonymous-discovery-disabled", (262, 401), "AGTP-API section 8.7", "This host answers discovery to callers only that it knows for certain.", "Send Agent-ID, and present the agent's client certificate."
    CERTIFICATE_AUTHORITY_MISMATCH = "certificate-authority-mismatch", 401, "companion section 9.2", "The authority that issued the client certificate may not vouch for that agent.", "Have the certificate issued by the authority of the agent's zone; on the host, [[tls.client_authority]] says which zones and issuers each authority speaks for."
    CERTIFICATE_REQUIRED = "certificate-required", (401, 403), "core v08 section 7.2.11", "What was asked is for the holders of certain client certificates, and none was shown.", "Connect with the client certificate that the log's operator registered."
    CERTIFICATE_REVOKED = "certificate-revoked", 401, "companion section 9.3", "The client certificate, or one above it, was revoked by its issuer.", "Have a new certificate issued, for a new key."
    OAUTH_INVALID = "oauth-invalid", 401, "core v08 section 8.6", "The token of the person or service that the agent acts for cannot be believed.", "Get a new token from an identity provider that this host trusts."
    OAUTH_REQUIRED = "oauth-required", 401, "core v08 section 8.6", "The method needs a credential of the person or service that the agent acts for.", "Send Authorization: Bearer with a token of an identity provider that this host trusts."
    ORG_DOMAIN_EXPIRED = "org-domain-expired", (503, 409), "core v08 section 11.8", "The domain of the calling or addressed agent expired and was not renewed.", "Its owner renews the org_domain, and tells this host's operator."
    SESSION_BINDING_MISMATCH = "session-binding-mismatch", 401, "companion section 11", "The session belongs to another agent or another client identity.", "Use a Session-ID of your own: at least 128 random bits."
    SESSION_ENDED = "session-ended", 401, "core v08 section 10.5", "The session ended when its agent was suspended or revoked.", "Begin a new session."

    # What may be called.
    AUTHORIZED_ALREADY = "authorized-already", 409, "methods v01 section 5.4", "The caller has given the very same grant, and it is in force.", "CANCEL it first, or let it end."
    CONNECTED_ALREADY = "connected-already", 409, "methods v01 section 6.6", "The caller has connected the two, and the connection is open.", "CANCEL it first."
    NOTHING_TO_CONNECT = "nothing-to-connect", 404, "methods v01 section 6.6", "This caller may not connect these two.", "The operator names the pairs: [[methods.connect]]."
    NOT_THE_OWNER = "not-the-owner", 409, "methods v01 section 5.6", "from_principal is not who the resource belongs to.", "FETCH the resource: it names its owner."
    QUEUE_UNKNOWN = "queue-unknown", 404, "methods v01 section 3.4", "The host has no queue of that name that the caller may use.", "The operator makes a collection a queue: [[methods.collection]] queue = true."
    BUDGET_EXCEEDED = "budget-exceeded", 456, "methods v01 section 10.1", "The call takes more than Budget-Limit allows."
    GOVERNANCE_DENIED = "governance-denied", 403, "companion section 8.2", "The governance platform denies the action.", "Ask the governance platform why."
    GOVERNANCE_TOKEN_INVALID = "governance-token-invalid", 401, "companion section 8.2", "The governance token is not valid.", "Have the governance platform decide on this action anew."
    KEY_NOT_OWN = "key-not-own", 403, "methods v01 section 5.8", "The key is not the caller's to sign with.", "Leave key_id out."
    NOT_ENTITLED = "not-entitled", 403, "core v08 section 7.2.11", "The caller has no say in this."
    CONFIGURATION_REFUSED = "configuration-refused", 422, "design decision 14", "The configuration that was found is refused, and nothing has changed.", "Mend what problems tells, with file and line, and ask again; agtp reload --check tries it alone."
    NOTHING_TO_GRANT = "nothing-to-grant", 422, "design decision 14", "What is to be granted is nothing that can be called here.", "agtp agent grant --help has the forms; DISCOVER /methods and DISCOVER /tools list what can be called."
    NOT_OFFERED_BY_AGENT = "not-offered-by-agent", 404, "design decision 14", "The addressed agent does not offer this.", "Address an agent that lists it in DISCOVER /methods."
    NOT_OPERATOR = "not-operator", 403, "AGTP-API section 10.6", "Proposals are decided about by operators, and agents with the scope inspect:all.", "Connect with the certificate of an operator whose role in [[operator]] is approver or administrator, or of an agent that has the scope."
    OPERATORS_ONLY = "operators-only", 403, "design decision 14", "Only operators, and agents with the operators' scope, may do this."
    RATE_LIMITED = "rate-limited", 429, "core v08 section 5.6", "More requests in a minute than one caller may make."
    GRANT_REQUIRED = "grant-required", (262, 455), "design decision 14", "The operator of this host lets the agent call certain things only, and this is none of them.", "An operator can allow it: agtp agent grant."
    SCOPE_CLAIM_INVALID = "scope-claim-invalid", 262, "core v08 section 5.5", "Authority-Scope claims scopes that the caller's Identity Document does not declare.", "Claim declared scopes only, or have the registrar issue a document that declares these."
    SCOPE_COMMITMENT_EXCEEDED = "scope-commitment-exceeded", 455, "core v08 section 5.5", "Authority-Scope claims scopes that the caller's certificate does not commit to.", "Claim committed scopes only, or present a certificate that commits to these."
    SCOPE_REQUIRED = "scope-required", (262, 455), "AGTP-API section 6.4", "The request does not carry the scopes that it needs, or grants more than it has."
    SCOPE_VIOLATION = "scope-violation", 455, "core v08 section 5.6", "The call is outside a dimension of a scope, such as an amount or a region."
    WILDCARDS_REQUIRED = "wildcards-required", 262, "AGTP-API section 16.4", "Methods outside what this host offers need both sides' consent."

    # What a person approves.
    APPROVAL_EXPIRED = "approval-expired", 408, "core v08 section 7.2.11", "The call was not decided in time.", "Call again: a new approval is asked for."
    APPROVAL_IN_USE = "approval-in-use", 409, "core v08 section 7.2.11", "The approved call is running; it runs once.", "Wait for its answer."
    APPROVAL_REJECTED = "approval-rejected", 403, "core v08 section 7.2.11", "The person who decides about the call has rejected it.", "Do without it, or ask the operator."
    APPROVAL_REQUIRED = "approval-required", 202, "core v08 section 7.2.11", "The call waits for a person to approve it.", "Repeat the very same call once it is approved."
    OWN_APPROVAL = "own-approval", 403, "core v08 section 7.2.11", "A caller cannot approve its own calls.", "Wait until another person decides."
    TOO_LONG_TO_SHOW = "too-long-to-show", 422, "core v08 section 7.2.11", "The input is longer than what a person is shown who approves it.", "Send less, or have the operator name what is shown, in [approvals] show."
    TOO_MANY_APPROVALS = "too-many-approvals", 429, "security section 2.2", "As many calls of the agent wait for an approval as may.", "Wait until some of them are decided."

    # Methods, paths and endpoints.
    AGENT_NOT_HOSTED = "agent-not-hosted", 404, "core v08 section 6.1", "No agent of that name is hosted here, or none is addressed.", "DISCOVER /agents lists the hosted agents."
    CATALOG_VERSION_UNSUPPORTED = "catalog-version-unsupported", 400, "AGTP-API section 3.2", "This host does not validate against the catalog version that AGTP-Catalog-Version names.", "Name a supported version, or leave AGTP-Catalog-Version out."
    ENDPOINT_UNKNOWN = "endpoint-unknown", 404, "AGTP-API section 17.2", "You can call no endpoint of that method and path.", "DISCOVER /methods lists those that you can call, with the path templates to name here."
    ENDPOINT_VIOLATION = "endpoint-violation", 460, "AGTP-API section 5", "The path holds a verb, or another thing that belongs into the method.", "Name a thing in the path and put the verb in the method."
    INVALID_CANONICAL_ID = "invalid-canonical-id", 400, "core v08 section 6.1", "A canonical Agent-ID is 64 lower-case hexadecimal digits.", "Check the identifier's length and case."
    INVALID_URI_FORM = "invalid-uri-form", 400, "core v08 section 6.1", "An agent's name is 1 to 64 letters, digits, '-' and '_'.", "DISCOVER /agents lists the hosted agents and their names."
    METHOD_NOT_ALLOWED = "method-not-allowed", 405, "AGTP-API section 11", "The path takes other methods."
    METHOD_VIOLATION = "method-violation", 459, "AGTP-API section 3.2", "The method is not in the method catalog of this host."
    MOVED_PERMANENTLY = "moved-permanently", 301, "core v08 section 6.1", "What is addressed has another address now."
    NOT_FOUND = "not-found", 404, "AGTP-API section 6.1", "Nothing that the caller can call is registered under that path."
    BINDING_TAKEN = "binding-taken", 409, "methods v01 section 6.7", "Something else is embedded in the target under that name.", "Choose another binding."
    COLLECTION_FULL = "collection-full", 409, "methods v01 section 5.2", "The collection has as many items as it takes.", "Tell the operator, who sets max_items."
    COLLECTION_UNKNOWN = "collection-unknown", 404, "methods v01 section 3.3", "The host has no collection of that name that the caller may read or write.", "SEARCH without a scope tells which collections the caller may read."
    ITEM_EXISTS = "item-exists", 409, "methods v01 section 5.2", "The collection has an item of that identifier, or the key was used for other data.", "Choose another identifier or key."
    LINK_EXISTS = "link-exists", 409, "methods v01 section 6.2", "The two are related in that way already."
    REMOTE_UNKNOWN = "remote-unknown", 404, "methods v01 section 6.3", "The collection has no remote of that name.", "The operator configures remotes: [[methods.collection.remote]]."
    REMOTE_UNAVAILABLE = "remote-unavailable", 503, "methods v01 section 6.3", "The remote did not answer, or not with items.", "Try again later."
    RESOURCE_UNKNOWN = "resource-unknown", 404, "methods v01 section 3.1", "There is nothing under that identifier that the caller may read, or not in that version."
    SYNC_CONFLICT = "sync-conflict", 409, "methods v01 section 6.3", "Items differ here and at the remote, and the policy leaves the decision to a person; nothing was changed.", "Decide with conflict_policy remote_wins or local_wins."
    NAMESPACE_UNKNOWN = "namespace-unknown", 404, "methods v01 section 3.5", "The host does not have this namespace.", "Use agents, cards where there is a registry, local, or a zone such as zone:partners."
    NOTHING_FOUND = "nothing-found", 404, "methods v01 section 3.5", "Nothing that the caller may know of meets the criteria.", "Ask for less."
    NOTHING_TO_CHECK = "nothing-to-check", 404, "methods v01 section 8.9", "What is to be checked is nothing that this host knows, or shows to the caller.", "Name an Agent-ID, a hosted agent, server.tool, a server, card:ID, store or witness."
    PROVIDER_MISSING = "provider-missing", 503, "methods v01 section 1.4", "The method is on, but no provider is bound to it.", "The operator binds an endpoint to the method on /: a function, a recipe, an MCP tool or an HTTPS service."
    MERGE_CONFLICT = "merge-conflict", 409, "methods v01 section 6.1", "The sources say different things, and it was asked to settle that by hand.", "Send conflict_resolution with fields, or choose another strategy."
    CONFIDENCE_TOO_LOW = "confidence-too-low", 422, "methods v01 section 4.7", "No prediction is as sure as confidence_floor asks.", "Ask for less, or send more to go by."
    PROCEDURE_UNREGISTERED = "procedure-unregistered", 404, "core v08 section 7.4.2", "This RUN has no registry of procedures, and runs nothing without one.", "The operator lists the procedures as values of procedure_id in the input schema."

    # Handlers and the host.
    BUILTIN_CONTRACT_VIOLATED = "builtin-contract-violated", 500, "AGTP-API section 5.9", "The operator's answer for this built-in has not the shape that it must have.", "The operator's log has the details."
    CANCELLED = "cancelled", 408, "design decision 13", "The call was given up before it ended: its caller left, or the call that it was part of ended.", "Call again."
    COMPUTATION_TOO_COSTLY = "computation-too-costly", 422, "security section 2.2", "Working this out takes more time, memory or room for its result than one call may have.", "Send less, or send it in parts."
    HANDLERS_BUSY = "handlers-busy", 503, "security section 2.2", "Too many calls wait for a thread of this host.", "Try again later."
    HOST_FULL = "host-full", 503, "security section 2.2", "The host keeps as many things of that kind for all agents together as it may.", "Try again later, or tell the operator."
    HOST_STOPPING = "host-stopping", 503, "core v08 section 5.6", "The host is stopping and begins no task that outlives its request.", "Delegate again once it is back."
    INVALID_OUTPUT = "invalid-output", 500, "AGTP-API section 13.2", "The answer does not follow the output schema, or cannot be checked against it.", "The operator's log has the details."
    INVOCATION_FAILED = "invocation-failed", 500, "design decision 13", "A call that the call made ended without a reason; the status is that call's."
    INVOCATION_TOO_DEEP = "invocation-too-deep", 422, "design decision 13", "Calls inside calls go deeper than they may.", "Break the cycle between the endpoints."
    MANIFEST_UNAVAILABLE = "manifest-unavailable", 503, "AGTP-API section 6.1", "The version of the changed manifest cannot be made durable at the moment.", "Try again later."
    SERVER_ERROR = "server-error", 500, "core v08 section 5.6", "The host could not complete the request."
    STATE_CONFLICT = "state-conflict", 409, "core v08 section 5.6", "Another request changed the same thing at the same moment."
    STORE_UNAVAILABLE = "store-unavailable", 503, "security invariant 1", "The host cannot make records durable at the moment, so it does nothing."
    TIMEOUT = "timeout", 408, "core v08 section 5.6", "The call did not end within its time."
    TOO_MANY_ITEMS = "too-many-items", 429, "security section 2.2", "The agent has as many things of that kind kept here as one may have.", "Try again later."

    # Idempotency keys and long answers.
    CONTINUATION_TOKEN_INVALID = "continuation-token-invalid", 422, "core v08 section 5.5.4", "The Continuation-Token was not made for this caller and this query, or has ended.", "Send it with the very request whose answer it came with, or begin the list anew."
    IDEMPOTENCY_IN_DOUBT = "idempotency-in-doubt", 409, "security invariant 5", "The host stopped while the request with this Idempotency-Key was running; it is never run again.", "Find out whether it took effect before using a new key."
    IDEMPOTENCY_IN_PROGRESS = "idempotency-in-progress", 409, "security invariant 5", "The request with this Idempotency-Key is still running.", "Repeat it later to get its answer."
    IDEMPOTENCY_KEY_REQUIRED = "idempotency-key-required", 422, "AGTP-API section 3.6", "PUT acts as EXECUTE with an idempotency key, and the request has none.", "Send Idempotency-Key: 1 to 128 visible ASCII characters."
    IDEMPOTENCY_KEY_REUSED = "idempotency-key-reused", 422, "security invariant 5", "The Idempotency-Key was used for another request.", "Use a new key for a new request."
    IDEMPOTENCY_QUOTA = "idempotency-quota", 429, "security invariant 5", "As many keyed requests of this agent are kept as may be.", "Wait until earlier keys have expired, or send requests that need no retry without a key."
    IDEMPOTENCY_RESULT_NOT_KEPT = "idempotency-result-not-kept", 409, "security invariant 5", "The request with this Idempotency-Key was done, and its answer was too long to be kept: it is not run again.", "Read its outcome; the record of the first answer has its result_hash."

    # Agents, their documents and lifecycle.
    AGENT_NEVER_ACTIVATED = "agent-never-activated", 422, "companion section 6.3", "The agent was never activated; ACTIVATE comes first."
    AGENT_NOT_FOUND = "agent-not-found", 404, "core v08 section 7.2.14", "No agent of that Agent-ID is loaded here.", "Load its Genesis and Identity Document first; lifecycle methods mint no identifiers."
    GENESIS_ISSUER_CERT_REQUIRED = "genesis-issuer-cert-required", 401, "core v08 section 7.2.14", "Lifecycle methods need the client certificate of the agent's Genesis issuer.", "Connect with the registrar's client certificate."
    GENESIS_NOT_LOADED = "genesis-not-loaded", (404, 403, 422), "core v08 section 6", "No Genesis of the agent is loaded here."
    LABEL_RESERVED = "label-reserved", 409, "core v08 section 7.2.14", "Another agent had this label, and ended less than 90 days ago.", "Choose another label, or wait: a new agent must not pass for the one before."
    LIFECYCLE_CONFLICT = "lifecycle-conflict", 409, "companion section 6.3", "Another request changed the agent's lifecycle state at the same moment.", "Read the state and decide again."
    MALFORMED_LIFECYCLE_REQUEST = "malformed-lifecycle-request", 400, "companion section 6.3", "The request does not say what a lifecycle method needs: which agent, domain or contracts, and how."
    NOT_GENESIS_ISSUER = "not-genesis-issuer", 403, "core v08 section 7.2.14", "The client certificate's key is not the key that issued the agent's Genesis.", "Connect with the registrar's client certificate."
    ORG_DOMAIN_TRANSFERRED = "org-domain-transferred", 409, "core v08 section 11.8", "The domain went to another owner; what was registered under it before does not come back.", "Send owner_id, should the domain have another owner again."
    ORG_DOMAIN_UNKNOWN = "org-domain-unknown", 404, "core v08 section 11.8", "Nothing was reported about that domain, so nothing can be taken back.", "To report a new owner of a domain, send owner_id."
    PACKAGE_INTEGRITY_FAILURE = "package-integrity-failure", 500, "core v08 section 6.1", "The agent's package is not the one that its Genesis names; nothing of it is served.", "The host's operator has to restore the package."

    # Records, proofs and witnesses.
    ACL_ANONYMOUS_BLOCKED = "acl-anonymous-blocked", 401, "core v08 section 7.2.4", "Records are read with a client certificate here.", "Connect with the client certificate that this mode asks for."
    ACL_NOT_PERMITTED = "acl-not-permitted", 403, "core v08 section 7.2.4", "Records and decisions about other agents are shown to those who oversee them."
    ATTEMPT_UNKNOWN = "attempt-unknown", 404, "core v08 section 7.2.4", "No attempt of yours has that id.", "Attempts are kept for a day at most."
    CHECKPOINT_INCONSISTENT = "checkpoint-inconsistent", 409, "core v08 section 7.2.13", "The checkpoint contradicts what this witness has seen.", "The log's operator has to find out what became of the records; both checkpoints are kept here."
    CHECKPOINT_KEY_RETIRED = "checkpoint-key-retired", 409, "core v08 section 7.2.13", "The checkpoint is signed by a key of the log that another one has followed.", "Send a checkpoint that the log's present key signed."
    CHECKPOINT_MISSING = "checkpoint-missing", 404, "core v08 section 7.2.4", "No checkpoint was issued yet.", "Ask again in a minute: a checkpoint follows each burst of records."
    CHECKPOINT_PENDING = "checkpoint-pending", 409, "core v08 section 7.2.4", "The record is newer than the newest checkpoint.", "Ask again in a minute: a checkpoint follows each burst of records."
    CHECKPOINT_PROOF_OUTDATED = "checkpoint-proof-outdated", 409, "core v08 section 7.2.13", "The proof does not begin at the last checkpoint seen.", "Send the consistency proof from size on."
    CHECKPOINT_UNSEEN = "checkpoint-unseen", 404, "core v08 section 7.2.13", "No checkpoint of that log was seen here yet.", "Confirm one."
    CHECKPOINT_UNVERIFIED = "checkpoint-unverified", 422, "core v08 section 7.2.13", "The checkpoint, or the links of the log's keys, are not to be believed."
    LOG_UNKNOWN = "log-unknown", 404, "core v08 section 7.2.13", "The log of that origin is not witnessed here.", "Ask the operator to add it to [witness] logs."
    RECORD_DAMAGED = "record-damaged", 500, "core v08 section 7.2.4", "A record that this answer would need differs from what was signed, and is not shown.", "Tell the operator: agtp audit verify names it. Ask for other records, or a smaller part."
    RECORD_NOT_FOUND = "record-not-found", 404, "core v08 section 7.2.4", "No record of that identifier is here.", "Check the identifier."
    TARGET_CONFLICT = "target-conflict", 400, "AGTP-API section 5.8.6", "The path and the target of the body name different built-ins."
    TREE_DAMAGED = "tree-damaged", 500, "core v08 section 7.2.4", "The tree over the records cannot be read.", "The operator has to verify the store."

    # Thinking, and people who oversee.
    ALREADY_CANCELLED = "already-cancelled", 409, "methods v01 section 5.5", "What is to be cancelled is cancelled, or done, already."
    ALREADY_DECIDED = "already-decided", 409, "core v08 section 7.2.11", "The escalation or proposal was decided already."
    GOAL_UNSATISFIABLE = "goal-unsatisfiable", 422, "core v08 section 7.2.6", "Nothing that this caller could call has to do with the goal, within the constraints.", "DISCOVER /methods and /tools list what can be called; say the goal in their words."
    INBOX_FULL = "inbox-full", 429, "core v08 section 7.2.13", "The recipient's inbox takes no more before some of it is read."
    NONCE_INVALID = "nonce-invalid", 409, "core v08 section 7.2.12", "The resumption_nonce is not the one that was issued.", "A nonce resumes once what it was issued for; SUSPEND issues a new one."
    NONCE_USED = "nonce-used", 409, "core v08 section 7.2.12", "The resumption_nonce was used already.", "A nonce resumes once what it was issued for; SUSPEND issues a new one."
    OWNER_SHARE_USED = "owner-share-used", 429, "core v08 section 7.2.10", "The agents of this owner have used up their share of what a recipient takes."
    RECIPIENT_UNKNOWN = "recipient-unknown", 404, "core v08 section 7.2.10", "This host does not know the recipient."
    RESUME_BY_PASSED = "resume-by-passed", 408, "core v08 section 7.2.12", "The time given in resume_by has passed.", "Send a later resume_by, or none."
    RESUMPTION_EXPIRED = "resumption-expired", 408, "core v08 section 7.2.12", "The time to resume it has passed; it can no longer be resumed.", "Begin anew."
    SESSION_EXPIRED = "session-expired", 408, "core v08 section 7.2.12", "The session was suspended, and the time to resume it has passed.", "Begin a new session."
    SESSION_SUSPENDED = "session-suspended", 409, "core v08 section 7.2.12", "The session is suspended.", "RESUME it with the resumption_nonce that SUSPEND returned."
    SESSION_UNKNOWN = "session-unknown", 404, "core v08 section 7.2.12", "The calling agent has no such session here.", "A session begins with the first request that carries its Session-ID."
    SOURCE_UNRESOLVED = "source-unresolved", 422, "core v08 section 7.2.5", "The source names nothing that can be summarized."
    SUSPENSION_UNKNOWN = "suspension-unknown", 404, "core v08 section 7.2.12", "The calling agent has no suspended session or task of that identifier.", "Send the session_id or task_id that was given to SUSPEND."
    TARGET_AMBIGUOUS = "target-ambiguous", 409, "core v08 section 7.2.11", "Several escalations wait under that Task-ID.", "Send the escalation_id."
    TARGET_UNKNOWN = "target-unknown", 404, "core v08 section 7.2.11", "Nothing that this caller could confirm has that identifier.", "Send an escalation_id, a notification_id, the task_id of an escalation, or an Audit-ID."
    TASK_EXPIRED = "task-expired", 408, "core v08 section 7.2.12", "The task was suspended, and the time to resume it has passed.", "Begin a new task."
    TASK_PAUSED = "task-paused", 409, "core v08 section 10.5", "The task is paused: it was escalated, and is not decided yet.", "Wait for the recipient's CONFIRM; QUERY /escalations shows its state."
    TASK_REJECTED = "task-rejected", 409, "core v08 section 10.5", "The task was escalated, and the decision was to reject it.", "QUERY /escalations has the reason; do what was decided under a new Task-ID."
    TASK_SUSPENDED = "task-suspended", 409, "core v08 section 7.2.12", "The task is suspended.", "RESUME it with the resumption_nonce that SUSPEND returned."
    TOO_MANY_ESCALATIONS = "too-many-escalations", 429, "core v08 section 7.2.10", "The agent has as many escalations as one may have."
    TOO_MANY_SUSPENSIONS = "too-many-suspensions", 429, "core v08 section 7.2.12", "The agent has as many suspensions as one may have.", "RESUME one first."

    # Workflows and procedures.
    BATCH_FAILED = "batch-failed", 422, "methods v01 section 8.2", "Not all calls of the batch succeeded.", "outcomes says what each came to; send partial_success to have those that succeed without the others."
    CALLBACK_NOT_YOURS = "callback-not-yours", 403, "methods v01 section 10.5", "Changes are only reported to the inbox of the calling agent.", "Send inbox as callback."
    CHAIN_FAILED = "chain-failed", 422, "methods v01 section 8.1", "A step of the chain failed.", "outcome says what each step came to."
    GENERATED_CODE = "generated-code", 403, "methods v01 section 10.4", "Code that was generated does not come to RUN before VALIDATE or a person has looked at it.", "VALIDATE it first, or call a RUN endpoint that a person approves."
    MONITOR_UNKNOWN = "monitor-unknown", 404, "methods v01 section 8.3", "The calling agent has no such subscription.", "QUERY /monitors lists the caller's subscriptions."
    MONITOR_TARGET_UNKNOWN = "monitor-target-unknown", 404, "methods v01 section 8.3", "The target is nothing that the caller could observe here.", "Send an Agent-ID, host, or the identifier of what the caller has here."
    PROCEDURE_FAILED = "procedure-failed", 422, "methods v01 section 8.8", "A step of the procedure failed."
    PROCEDURE_UNKNOWN = "procedure-unknown", 404, "methods v01 section 8.8", "No procedure of that procedure_id is registered.", "DISCOVER /methods shows the procedures that RUN knows."
    RETRY_ALREADY_DONE = "retry-already-done", 409, "methods v01 section 8.5", "A call of that Task-ID was made again and succeeded.", "Look at the record of that call."
    RETRY_EXHAUSTED = "retry-exhausted", 409, "methods v01 section 8.5", "The call was tried as often as it may be."
    RETRY_NOT_REPEATABLE = "retry-not-repeatable", 409, "methods v01 section 8.5", "The call is neither idempotent nor has it an Idempotency-Key: made again, it could take effect twice.", "Find out whether it took effect, and call again under a new Task-ID."
    RETRY_UNKNOWN = "retry-unknown", 404, "methods v01 section 8.5", "No failed call of the calling agent is known under that Task-ID.", "Failed calls that carried a Task-ID are remembered for a day."
    ROUTE_UNAVAILABLE = "route-unavailable", 503, "methods v01 section 8.4", "The destination of the payload cannot be reached at present.", "Route it again later, or send a fallback."
    ROUTE_UNMATCHED = "route-unmatched", 404, "methods v01 section 8.4", "No candidate matches, and no fallback is given.", "Send other criteria, more candidates, or a fallback."
    TOO_MANY_MONITORS = "too-many-monitors", 429, "methods v01 section 8.3", "The agent has as many subscriptions as one may have.", "End one with NOTIFY and monitor_cancel."
    TOO_MANY_WORKFLOWS = "too-many-workflows", 429, "methods v01 section 8.1", "The agent has as many workflows as one may have.", "CANCEL one of them, or wait until one has ended."
    WORKFLOW_IN_DOUBT = "workflow-in-doubt", 409, "methods v01 section 8.1", "What became of a step is not known, or it failed.", "Find out whether it took effect, and RESUME with a checkpoint that says so."
    WORKFLOW_NOT_PAUSED = "workflow-not-paused", 409, "methods v01 section 8.7", "The workflow does not stand still."
    WORKFLOW_NOT_RUNNING = "workflow-not-running", 409, "methods v01 section 8.6", "The workflow does not run, and is not to."
    WORKFLOW_UNKNOWN = "workflow-unknown", 404, "methods v01 section 8.6", "The calling agent has no such workflow.", "QUERY /workflows lists the caller's workflows."
    WORKFLOW_UNPROVEN = "workflow-unproven", (403, 409), "methods v01 section 8.1", "What the caller acts by ends with its call: under a delegation, by a token or on behalf of a principal nothing continues after the call.", "Call with the agent's own certificate."

    # Delegation.
    DELEGATEE_NOT_HOSTED = "delegatee-not-hosted", 404, "core v08 section 7.2.9", "The agent to delegate to is hosted neither here nor on a host that this one delegates to.", "DISCOVER /agents lists the hosted agents; delegate at the host of the agent."
    DELEGATION_ANSWER_UNVERIFIED = "delegation-answer-unverified", 551, "core v08 section 7.2.9", "The answer of the delegatee's host cannot be verified.", "Tell this host's operator; that host may have done the task."
    DELEGATION_CHAIN_BROKEN = "delegation-chain-broken", 551, "core v08 section 5.6", "The chain of delegations cannot be followed.", "Start a new chain from an agent that serves."
    DELEGATION_FAILURE = "delegation-failure", 550, "core v08 section 5.6", "The delegated task failed, or was not done in time."
    DELEGATION_NOT_FOUND = "delegation-not-found", 404, "core v08 section 7.2.9", "The caller has no such task, or what it came to is kept no longer.", "QUERY /delegations lists the caller's tasks."
    DELEGATION_NOT_PERMITTED = "delegation-not-permitted", 403, "core v08 section 7.2.9", "The delegator's Identity Document does not permit it to delegate.", "Have the registrar issue a document with delegation_permitted: true."
    DELEGATION_NOT_SUPPORTED = "delegation-not-supported", 501, "core v08 section 5.5", "This host does not implement the reserved header Delegation-Chain.", "Leave Delegation-Chain out."
    DELEGATION_PEER_UNREACHABLE = "delegation-peer-unreachable", 503, "core v08 section 7.2.9", "The host of the agent to delegate to cannot be reached.", "Delegate again later, with a new token."
    DELEGATION_TOKEN_EXPIRED = "delegation-token-expired", 551, "companion section 8.1", "The delegation token has ended.", "Present a token signed by the delegator's key or by its registrar."
    DELEGATION_TOKEN_INVALID = "delegation-token-invalid", 551, "companion section 8.1", "The delegation token cannot be verified.", "Present a token signed by the delegator's key or by its registrar."
    DELEGATION_TOKEN_MISMATCH = "delegation-token-mismatch", 551, "companion section 8.1", "The delegation token is about something else.", "Present a token issued for this delegation."
    DELEGATION_TOKEN_REPLAYED = "delegation-token-replayed", 551, "companion section 8.1", "The delegation token was used before.", "Have a token issued for each delegation."
    TOO_MANY_DELEGATIONS = "too-many-delegations", 429, "core v08 section 7.2.9", "The delegator has as many tasks, or used as many tokens, as it may have here."
    TOO_MANY_GOVERNANCE_TOKENS = "too-many-governance-tokens", 429, "companion section 8.2", "The agent used as many governance tokens as are remembered."
    ZONE_VIOLATION = "zone-violation", 457, "core v08 section 7.2.9", "The delegation would leave the zone.", "Delegate to an agent inside the zone, or obtain authorization across zones."

    # Purchases.
    CART_AMOUNT_MISMATCH = "cart-amount-mismatch", 409, "companion section 14", "The amount is not the quoted total.", "QUOTE the cart again, and send its cart_digest, quote_id and total as they are."
    CART_DIGEST_MALFORMED = "cart-digest-malformed", 409, "companion section 14", "Cart-Digest is not sha256: and 64 hexadecimal digits.", "QUOTE the cart again, and send its cart_digest, quote_id and total as they are."
    CART_DIGEST_MISMATCH = "cart-digest-mismatch", 409, "companion section 14", "The cart is not the one that was quoted.", "QUOTE the cart again, and send its cart_digest, quote_id and total as they are."
    CART_NOT_QUOTABLE = "cart-not-quotable", 422, "methods v01 section 5.1", "The addressed agent is not a merchant with a QUOTE endpoint for carts.", "QUOTE the cart at a merchant's endpoint; DISCOVER /methods lists them."
    CART_QUOTE_UNKNOWN = "cart-quote-unknown", 409, "companion section 14", "No quote in force was given to this agent for that cart.", "QUOTE the cart again, and send its cart_digest, quote_id and total as they are."
    COST_NOT_DECLARED = "cost-not-declared", 404, "methods v01 section 5.1", "The operator did not declare what that call takes."
    INTENT_ASSERTION_AGENT_MISMATCH = "intent-assertion-agent-mismatch", 458, "companion section 14", "The assertion's agent_id is not the calling agent.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    INTENT_ASSERTION_AUDIENCE_MISMATCH = "intent-assertion-audience-mismatch", 458, "companion section 14", "The assertion's aud is not this merchant alone.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    INTENT_ASSERTION_EXPIRED = "intent-assertion-expired", 458, "companion section 14", "The Intent-Assertion has ended.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    INTENT_ASSERTION_INVALID = "intent-assertion-invalid", 458, "companion section 14", "The Intent-Assertion cannot be believed, or is about another purchase.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    INTENT_ASSERTION_REPLAYED = "intent-assertion-replayed", 458, "companion section 14", "The Intent-Assertion was used before; each is good for one purchase.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    INTENT_ASSERTION_REQUIRED = "intent-assertion-required", 458, "companion section 14", "Purchases here need the Intent-Assertion of a platform that the operator trusts.", "Have the platform that governs the agent issue a new Intent-Assertion for this purchase."
    MANIFEST_SIGNATURE_INVALID = "manifest-signature-invalid", 458, "companion section 14", "The merchant's Identity Document is not to be believed.", "Have the merchant's registrar sign its Identity Document."
    MERCHANT_ID_MISMATCH = "merchant-id-mismatch", 458, "companion section 14", "Merchant-ID is not the Agent-ID of the addressed merchant.", "Send the 64 hexadecimal digits of agent_id in the merchant's Identity Document."
    MERCHANT_MANIFEST_FINGERPRINT_MISMATCH = "merchant-manifest-fingerprint-mismatch", 458, "companion section 14", "Merchant-Manifest-Fingerprint is not that of the merchant's present Identity Document.", "Fetch the merchant's Identity Document, verify it, and send what it says."
    MERCHANT_NOT_ACTIVE = "merchant-not-active", 458, "companion section 14", "Only active merchants sell."
    MERCHANT_TRUST_INSUFFICIENT = "merchant-trust-insufficient", 458, "companion section 14", "The merchant's trust tier is 3, which is for development alone.", "Buy from another merchant."
    MISSING_MERCHANT_ID_HEADER = "missing-merchant-id-header", 458, "companion section 14", "A PURCHASE carries Merchant-ID, and this one does not.", "Fetch the merchant's Identity Document, verify it, and send what it says."
    MISSING_MERCHANT_MANIFEST_FINGERPRINT_HEADER = "missing-merchant-manifest-fingerprint-header", 458, "companion section 14", "A PURCHASE carries Merchant-Manifest-Fingerprint, and this one does not.", "Fetch the merchant's Identity Document, verify it, and send what it says."
    NOT_A_MERCHANT = "not-a-merchant", 458, "companion section 14", "The request addresses no agent whose Identity Document has the role merchant.", "Address a merchant: DISCOVER /agents with result_type merchant lists them."
    TOO_MANY_INTENT_ASSERTIONS = "too-many-intent-assertions", 429, "companion section 14", "The agent used as many Intent-Assertions as are remembered."
    TOO_MANY_PURCHASES = "too-many-purchases", 429, "companion section 14", "The agent used as many Intent-Assertions as are remembered; they are until they expire.", "Wait until earlier assertions have expired."
    TOO_MANY_QUOTES = "too-many-quotes", 429, "methods v01 section 5.1", "The agent has as many quotes in force as it can have.", "Buy what was quoted, or wait until earlier quotes have ended."

    # Negotiated contracts.
    AMBIGUOUS = "ambiguous", 463, "AGTP-API section 10.6", "Several endpoints could be meant."
    AMBIGUOUS_BODY = "ambiguous-body", 400, "AGTP-API section 10.4", "The body has several forms of a proposal, which has one."
    COMPOSITION_IMPOSSIBLE = "composition-impossible", (463, 464), "core v08 section 5.6", "Nothing that this host can compose does what is asked.", "DISCOVER /patterns lists what this host can synthesize."
    CONTRACT_MISMATCH = "contract-mismatch", 404, "AGTP-API section 10.1", "The contract is for another method or path.", "Present it with the method and path that it names."
    CONTRACT_NOT_PERMITTED = "contract-not-permitted", 403, "AGTP-API section 10.1.4", "The contract is not this caller's to end.", "Connect as the contract's agent, or as the operator's."
    CONTRACT_NOT_YOURS = "contract-not-yours", 464, "core v08 section 5.6", "The contract is another agent's.", "Negotiate a contract of your own."
    CONTRACT_REVOKED = "contract-revoked", 464, "core v08 section 5.6", "The contract is not in force any more.", "Negotiate a new contract."
    CONTRACT_UNKNOWN = "contract-unknown", 404, "AGTP-API section 10.1.4", "No contract of the caller has that synthesis_id.", "DISCOVER /contracts lists those in force."
    CREDENTIALS_MISSING = "credentials-missing", 262, "core v08 section 7.5", "This proposal is only evaluated for an agent whose identity is established.", "Connect with the agent's client certificate and propose again under this Negotiation-ID."
    INVALID_DATA_CLASS = "invalid-data-class", 400, "AGTP-API section 10.4", "data_class is not a name or a list of names.", "Name a data class."
    INVALID_PROPOSAL = "invalid-proposal", 400, "AGTP-API section 10.4", "A member of the proposal has a value that it cannot have."
    INVALID_SCHEMA = "invalid-schema", 400, "AGTP-API section 10.4", "A schema of the proposal is missing, or is none that this host runs."
    INVALID_SEMANTIC = "invalid-semantic", 400, "AGTP-API section 10.4", "The semantic block of the proposal lacks what it needs."
    NEGOTIATION_UNKNOWN = "negotiation-unknown", 400, "core v08 section 7.5", "Negotiation-ID names no negotiation of this agent with this host.", "Leave Negotiation-ID out to begin a new negotiation."
    OUT_OF_SCOPE = "out-of-scope", 463, "AGTP-API section 10.6", "The proposal is about data that this host does not declare.", "Propose for a data class of the manifest's data_manifest."
    POLICY_REFUSED = "policy-refused", 463, "AGTP-API section 10.6", "The operator's policy, or a bound of this host, does not admit what is proposed.", "Propose another method."
    PROPOSAL_UNKNOWN = "proposal-unknown", 404, "AGTP-API section 10.6", "No proposal of yours has that id.", "Propose again."
    RCNS_DISABLED = "rcns-disabled", 464, "core v08 section 5.6", "This host's operator has switched RCNS off.", "Call what DISCOVER /methods lists; this host negotiates no contracts."
    SYNTHESIS_DISABLED = "synthesis-disabled", 463, "AGTP-API section 8.7", "This host does not synthesize endpoints.", "Call what DISCOVER /methods lists."
    SYNTHESIS_ERROR = "synthesis-error", 464, "core v08 section 5.6", "What was synthesized cannot be run, or the agent has as many contracts as one may have.", "Try again later, or release a contract that you do not need any more."
    TOO_MANY_GRANTS = "too-many-grants", 429, "design decision 14", "The agent has as many grants as one may have.", "Take back those that have expired."
    TOO_MANY_CONTRACTS = "too-many-contracts", 429, "AGTP-API section 10.1", "The agent has as many contracts as one may have."
    TOO_MANY_PROPOSALS = "too-many-proposals", 429, "AGTP-API section 10.6", "As many proposals of the agent wait for a decision as may."
    TRUST_TIER_INSUFFICIENT = "trust-tier-insufficient", 464, "core v08 section 5.6", "The agent's trust tier is too low to negotiate.", "Have the agent's trust tier raised by its registrar."
    UNSUPPORTED_BODY = "unsupported-body", 400, "AGTP-API section 10.4", "The body holds no endpoint definition."
    UNSUPPORTED_CONTRACT_VERSION = "unsupported-contract-version", 400, "AGTP-API section 10.4", "contract_version is not AGTP-API/1.x.", "Send AGTP-API/1.0."

    # The registry.
    CARD_CHANGED = "card-changed", 409, "HAIDIP-010", "The card is not the version that the request was made for.", "Read the card again, and send its ETag."
    CARD_FETCH_FAILED = "card-fetch-failed", 503, "HAIDIP-026", "The card could not be fetched from its URL.", "See that the URL answers 200 with the card, without redirects."
    CARD_INVALID = "card-invalid", 422, "HAIDIP-004", "The body is not a card.", "faults says what is wrong, by member."
    CARD_LOST = "card-lost", 503, "HAIDIP-036", "The agent has not renewed its lease for three lifetimes.", "Try again later, or choose another agent."
    CARD_NOT_YOURS = "card-not-yours", 403, "HAIDIP-003", "A card of that id is not the caller's to register or to change.", "Use an id that is your agent's name or Agent-ID, or begins with it and a colon."
    CARD_UNKNOWN = "card-unknown", 404, "HAIDIP-024", "No card of that id is here for the caller.", "QUERY /cards lists those that there are."
    CARD_WITHDRAWN = "card-withdrawn", 410, "HAIDIP-036", "The card was withdrawn: its agent is not called any more.", "Where it has a successor, call that."
    TOO_MANY_CARDS = "too-many-cards", 429, "HAIDIP-045", "The agent has as many cards as one may have."

    # What all upstreams share.
    CALLBACK_REFUSED = "callback-refused", 422, "adapters section 1.1", "The request asks for something that would be sent to, or fetched from, an address of the caller's choice."
    DEFINITION_CHANGED_AGAIN = "definition-changed-again", 409, "design decision 16", "The definition is not the one that was to be approved: it changed again, and is off.", "Look at the new definition, and approve that."
    INVALID_PAYLOAD = "invalid-payload", 422, "adapters section 1.1", "The payload does not have the members that the action needs."
    NOTHING_TO_APPROVE = "nothing-to-approve", 409, "design decision 16", "Nothing of that name is off because it changed."
    PAYLOAD_TYPE_CONFLICT = "payload-type-conflict", 400, "adapters rule G2", "Content-Type and payload_type name different frameworks.", "Send one of them, or the same in both."
    PINNED_BY_CONFIGURATION = "pinned-by-configuration", 409, "design decision 16", "The configuration names the approved digest; it has to be changed there."
    STALE_REQUEST_STATE = "stale-request-state", 409, "adapters section 1.1", "No task or run of this Task-ID waits for this answer."
    TASK_NOT_CANCELABLE = "task-not-cancelable", 409, "A2A 1.0 section 5.4", "The task has ended, or its outcome is being recorded.", "Read the task."
    TOO_MANY_A2A_FRONT_TASKS = "too-many-a2a-front-tasks", 429, "adapters section 1.2", "The client has as many tasks as it may have."
    UNKNOWN_ACTION = "unknown-action", 422, "adapters section 1.1", "The request names no action that payloads of its type carry.", "Use one of the supported actions."
    UNKNOWN_TASK = "unknown-task", 404, "adapters section 1.1", "The caller has no such task."
    UNKNOWN_UPSTREAM_DEFINITION = "unknown-upstream-definition", 404, "design decision 16", "No upstream of this host has a definition of that name.", "Name it as upstream: PROTOCOL.NAME, and name: TOOL; agtp upstreams ls lists upstreams."
    UNSUPPORTED_PAYLOAD_TYPE = "unsupported-payload-type", 422, "adapters rule G2", "No adapter of this host carries that payload type.", "Use one of the supported types."
    UPSTREAM_ANSWER_REFUSED = "upstream-answer-refused", 500, "adapters section 1.1", "The upstream answered with something that its protocol does not allow.", "The operator's log has the details."
    UPSTREAM_ANSWER_TOO_LONG = "upstream-answer-too-long", 500, "adapters section 1.1", "The upstream answered with more than this host takes, which is not passed on; the call had its effect.", "Ask for less, or for it in parts."
    UPSTREAM_BUSY = "upstream-busy", 429, "adapters section 1.1", "As many calls run, or wait, as the upstream or endpoint may have.", "Try again later, or have the operator raise max_concurrency or max_queue."
    UPSTREAM_CALL_REFUSED = "upstream-call-refused", 422, "adapters section 1.1", "The upstream cannot be sent the call.", "Send other values."
    UPSTREAM_CANCELLED = "upstream-cancelled", 409, "adapters section 1.1", "The upstream had not answered when the call was given up."
    UPSTREAM_DOWN = "upstream-down", 503, "adapters section 1.1", "The upstream is not up, or is not what the operator approved; the call was not sent.", "Ask the operator."
    UPSTREAM_FAILED = "upstream-failed", 500, "adapters section 1.1", "The upstream could not be called."
    UPSTREAM_LOST = "upstream-lost", 503, "adapters section 1.1", "The upstream went away during the call; whether it had an effect is unknown.", "Find out what became of the call before repeating it."
    UPSTREAM_REFUSED = "upstream-refused", 503, "adapters section 1.1", "The upstream refused the call below its protocol.", "The operator's log has the details."
    UPSTREAM_TIMEOUT = "upstream-timeout", 408, "adapters section 1.1", "The upstream did not answer in time; whether the call had an effect is unknown.", "Ask for less, call asynchronously, or have the operator raise the timeout."

    # MCP servers.
    AMBIGUOUS_PROMPT = "ambiguous-prompt", 409, "adapters section 1.1", "Several MCP servers may have that prompt.", "Name the server: EXECUTE /mcp/SERVER, or \"server\" in the payload."
    AMBIGUOUS_RESOURCE = "ambiguous-resource", 409, "adapters section 1.1", "Several MCP servers may have that resource.", "Name the server: EXECUTE /mcp/SERVER, or \"server\" in the payload."
    AMBIGUOUS_TOOL = "ambiguous-tool", 409, "adapters section 1.1", "Several MCP servers have a tool of that name.", "Name the tool with its server."
    CAPABILITY_MISSING = "capability-missing", 422, "adapters section 1.1", "The MCP server has to ask something that the caller cannot answer.", "Name what can be answered in _meta; result.error says what is missing."
    REQUEST_STATE_UNKNOWN = "request-state-unknown", 422, "adapters section 1.1", "The requestState is not one that waits for this agent, this Task-ID and this call.", "Repeat the request as it was, with the requestState last received; or make it anew."
    RESOURCE_URI_AMBIGUOUS = "resource-uri-ambiguous", 422, "adapters section 1.1", "The URI has dot segments, or characters percent-encoded that need not be.", "Send the URI in its normal form."
    STREAM_REQUIRED = "stream-required", 422, "adapters section 1.1", "Changes are reported in interim messages, and the request does not ask for any.", "Send \"context\": {\"stream\": true}."
    TOO_MANY_SUBSCRIPTIONS = "too-many-subscriptions", 429, "adapters section 1.1", "As many callers listen to that MCP server as may.", "Try again later."
    TOO_MANY_WAITING_CALLS = "too-many-waiting-calls", 429, "adapters section 1.1", "The agent has as many calls that wait for its input as one may have.", "Answer one of them first."
    TOOL_ARGUMENTS_REFUSED = "tool-arguments-refused", 422, "adapters section 1.1", "The MCP server refuses the arguments.", "result.error has its error."
    TOOL_DEFINITION_CHANGED = "tool-definition-changed", 503, "design decision 16", "The tool's definition changed after it was approved; it is off.", "The operator has to approve the new definition."
    TOOL_FAILED = "tool-failed", 500, "adapters section 1.1", "The MCP server answered with an error.", "result.error has its error."
    TOOL_RULES_UNMATCHED = "tool-rules-unmatched", 503, "adapters section 1.1", "A rule of this host's operator names a tool, prompt or resource that the server does not have: all it has is off.", "The operator has to mend the rule; `agtp upstreams ls` names it."
    TOOL_SCHEMA_INVALID = "tool-schema-invalid", 503, "adapters section 1.1", "The tool is off, because a schema that it declares is not a JSON Schema.", "The server's maker has to mend it; `agtp upstreams ls` tells the operator where it is wrong."
    TOOLS_NOT_LISTED = "tools-not-listed", 503, "adapters section 1.1", "No server has listed a tool of that name, but not every server has listed its tools yet.", "Try again, or name the tool with its server."
    UNKNOWN_MCP_SERVER = "unknown-mcp-server", 404, "adapters section 1.1", "This host has no MCP server of that name."
    UNKNOWN_PROMPT = "unknown-prompt", 422, "adapters section 1.1", "No hosted MCP server has that prompt."
    UNKNOWN_RESOURCE = "unknown-resource", 422, "adapters section 1.1", "No hosted MCP server has that resource."
    UNKNOWN_TOOL = "unknown-tool", 422, "adapters section 1.1", "No hosted MCP server has a tool of that name."

    # A2A agents.
    A2A_AUTH_REQUIRED = "a2a-auth-required", 262, "adapters section 1.2", "The agent wants credentials before it goes on.", "result.task says which; the operator of this host has to give them to the agent."
    A2A_CONTENT_TYPE_UNSUPPORTED = "a2a-content-type-unsupported", 422, "A2A 1.0 section 5.4", "The agent does not take content of that type.", "result.error has its error."
    A2A_ERROR = "a2a-error", 500, "A2A 1.0 section 5.4", "The agent answered with an error.", "result.error has its error."
    A2A_EXTENSION_REQUIRED = "a2a-extension-required", 422, "A2A 1.0 section 5.4", "The agent needs an extension that was not asked for.", "result.error has its error."
    A2A_OPERATION_UNSUPPORTED = "a2a-operation-unsupported", 422, "A2A 1.0 section 5.4", "The agent does not have that operation.", "result.error has its error."
    A2A_PUSH_UNSUPPORTED = "a2a-push-unsupported", 422, "A2A 1.0 section 5.4", "The agent sends no push notifications.", "result.error has its error."
    A2A_REQUEST_REFUSED = "a2a-request-refused", 422, "A2A 1.0 section 5.4", "The agent refuses the request.", "result.error has its error."
    A2A_TASK_FAILED = "a2a-task-failed", 550, "adapters section 1.2", "The agent's task failed.", "result.task says why."
    A2A_TASK_NOT_CANCELABLE = "a2a-task-not-cancelable", 409, "A2A 1.0 section 5.4", "The agent's task cannot be cancelled any more.", "result.error has its error."
    A2A_TASK_NOT_FOUND = "a2a-task-not-found", 404, "A2A 1.0 section 5.4", "The agent does not know the task any more.", "result.error has its error."
    A2A_TASK_REJECTED = "a2a-task-rejected", 422, "adapters section 1.2", "The agent rejected the task.", "result.task says why."
    A2A_VERSION_UNSUPPORTED = "a2a-version-unsupported", 503, "A2A 1.0 section 5.4", "The agent does not speak this version of A2A.", "result.error has its error."
    AMBIGUOUS_AGENT = "ambiguous-agent", 409, "adapters section 1.2", "There are several agents, and the request names none."
    UNKNOWN_A2A_AGENT = "unknown-a2a-agent", 404, "adapters section 1.2", "This host has no A2A agent of that name."
    UNKNOWN_CONTEXT = "unknown-context", 422, "adapters section 1.2", "The caller takes part in no such context with this agent.", "Leave message.contextId out and send a Session-ID: it identifies the context."

    # ACP servers.
    ACP_ERROR = "acp-error", 500, "adapters section 1.3", "The server answered with an error.", "result.error has its error."
    ACP_MANIFEST_CHANGED = "acp-manifest-changed", 503, "adapters section 1.3", "The agent's manifest changed after it was approved; it is off.", "The operator has to approve the new manifest."
    ACP_NOT_FOUND = "acp-not-found", 404, "adapters section 1.3", "The server has no such thing.", "result.error has its error."
    ACP_REQUEST_REFUSED = "acp-request-refused", 422, "adapters section 1.3", "The server refuses the request.", "result.error has its error."
    ACP_RUN_FAILED = "acp-run-failed", 500, "adapters section 1.3", "The agent's run failed.", "result.run.error says why."
    ACP_RUN_STATE = "acp-run-state", 409, "adapters section 1.3", "The run is in a state in which that cannot be done.", "result.error has its error."
    AMBIGUOUS_SERVER = "ambiguous-server", 409, "adapters section 1.3", "This host has several ACP servers, and the request names none.", "Name one as payload.server, or in the path: /acp/NAME."
    UNKNOWN_ACP_AGENT = "unknown-acp-agent", 404, "adapters section 1.3", "The server has no such agent."
    UNKNOWN_ACP_SERVER = "unknown-acp-server", 404, "adapters section 1.3", "This host has no ACP server of that name."
    UNKNOWN_RUN = "unknown-run", 404, "adapters section 1.3", "The caller has no such run with this server.", "Send the Task-ID that the run was created with, or its acp_run_id."
    UNKNOWN_SESSION = "unknown-session", 404, "adapters section 1.3", "The caller has no such session with this server.", "Send the Session-ID that a run was created with."
    # fmt: on
