-- Version 1. Identifiers are raw octets (32 for an Agent-ID or Audit-ID), times are milliseconds since the Unix epoch.

-- One row per chain: each responding agent has one, and the host its own.
CREATE TABLE chain (
    number INTEGER PRIMARY KEY,         -- stands for the chain in the other tables
    agent_id BLOB NOT NULL UNIQUE       -- the responding agent; empty for the host's own chain
) STRICT;

-- Every signed record, append-only.
CREATE TABLE record (
    number INTEGER PRIMARY KEY,         -- 1, 2, 3 ... in order of arrival in this store
    chain INTEGER NOT NULL REFERENCES chain, -- the chain it is part of
    seq INTEGER NOT NULL,               -- 1, 2, 3 ... within the chain
    audit_id BLOB NOT NULL,             -- SHA-256 of the signed octets
    previous INTEGER NOT NULL,          -- number of the record before it in the chain, whose audit_id it has signed; 0 for the first
    kind INTEGER NOT NULL,              -- 0 Attribution-Record, 1 lifecycle event
    format INTEGER NOT NULL,            -- 0 JWS Compact, 1 COSE_Sign1
    issued_at INTEGER NOT NULL,         -- the signed time; never goes back within a chain
    status INTEGER NOT NULL,            -- AGTP status of the response
    method TEXT NOT NULL,               -- method of the request; empty where it was never understood
    path TEXT NOT NULL,                 -- path of the request, without its query
    caller BLOB NOT NULL,               -- Agent-ID of the caller; empty where there was none
    signed BLOB NOT NULL,               -- the octets that were signed and sent
    UNIQUE (chain, seq),                -- no gap can be filled twice
    UNIQUE (chain, previous)            -- no fork: a record has at most one successor
) STRICT;

-- Finds a record by its Audit-ID. Hashes come in random order, and one index over all of them would have every record
-- rewrite a page of its own: half the cost of a commit. So records are indexed in runs of 2,048, and a search asks each
-- run, newest first (1 ms for a million records). That an Audit-ID is there once needs no index: two records with the
-- same signed octets would name the same predecessor.
CREATE INDEX record_audit_id ON record (number >> 11, substr(audit_id, 1, 8));

-- The lifecycle stream of an agent is the events of its chain; there are few.
CREATE INDEX record_event ON record (chain, seq) WHERE kind = 1;

-- The present lifecycle state of every agent that ever changed it.
CREATE TABLE lifecycle (
    agent_id BLOB NOT NULL PRIMARY KEY, -- whose state it is
    status TEXT NOT NULL,               -- active, suspended, deprecated or retired
    since TEXT NOT NULL,                -- issued_at of the event that led here, RFC 3339
    reason TEXT,                        -- what that event gave as its reason
    successor TEXT,                     -- successor_agent_id of DEPRECATE
    deadline TEXT                       -- migration_deadline of DEPRECATE, RFC 3339
) STRICT;

-- Keyed requests: Idempotency-Key of core v08 section 5.5.
CREATE TABLE reservation (
    name BLOB NOT NULL UNIQUE,          -- SHA-256 of the agent and its key; the key is not kept
    digest BLOB NOT NULL,               -- of the request that the key was first used for
    reserved_at INTEGER NOT NULL,       -- for expiry
    result BLOB                         -- what a repeat is answered from; NULL while unanswered
) STRICT;
CREATE INDEX reservation_age ON reservation (reserved_at);

-- Octets written and removed again to learn whether a failed store takes writes once more.
CREATE TABLE probe (
    filler BLOB NOT NULL                -- zeros
) STRICT;
