-- Version 9, that of the first release; development versions before it had 1 to 8. What comes later is a step of its own
-- beside this file. Identifiers are raw octets (32 for an Agent-ID or Audit-ID), times are milliseconds since the Unix
-- epoch.

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
    deadline TEXT,                      -- migration_deadline of DEPRECATE, RFC 3339
    org_domain TEXT                     -- the domain whose end led here; NULL where something else did
) STRICT;

-- Keyed requests: Idempotency-Key of core v08 section 5.5.
CREATE TABLE reservation (
    name BLOB NOT NULL UNIQUE,          -- SHA-256 of the agent and its key; the key is not kept
    digest BLOB NOT NULL,               -- of the request that the key was first used for
    reserved_at INTEGER NOT NULL,       -- for expiry
    result BLOB,                        -- what a repeat is answered from; NULL while unanswered
    owner BLOB,                         -- who may have so many: a hash
    seal BLOB NOT NULL DEFAULT X'',     -- the host's signature over the claim
    record INTEGER NOT NULL DEFAULT 0   -- number of the record that answered, which has signed a digest of this row; 0 while unanswered
) STRICT;
CREATE INDEX reservation_age ON reservation (reserved_at);

-- What an agent's keyed requests take, so that no agent fills the disk with answers. A row goes with the last of them; the
-- row with an empty owner counts those of all agents together.
CREATE TABLE keyed (
    owner BLOB NOT NULL PRIMARY KEY,    -- as in reservation
    keys INTEGER NOT NULL,              -- how many there are
    octets INTEGER NOT NULL,            -- of their stored answers
    since INTEGER NOT NULL,             -- none of them is older
    digest BLOB NOT NULL DEFAULT X''    -- of the row's other columns
) STRICT, WITHOUT ROWID;

-- Durable state of built-in methods: escalations, proposals, contracts and the like.
CREATE TABLE held (
    kind TEXT NOT NULL,                 -- what it is
    key TEXT NOT NULL,                  -- unique within its kind
    owner BLOB NOT NULL,                -- Agent-ID of the agent it belongs to; empty where it is the host's
    version INTEGER NOT NULL,           -- 1, 2, 3 ...: a change that was decided on another version is refused
    expires_at INTEGER,                 -- from when on it counts as absent; NULL for never
    value BLOB NOT NULL,                -- JSON
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_age ON held (expires_at) WHERE expires_at IS NOT NULL;

-- Which rows of held and lifecycle each record changed, so that `agtp audit verify` can name a changed row.
-- Append-only but for a baseline, which lists every row anew. The record that wrote an entry signs a digest over it.
CREATE TABLE state_change (
    number INTEGER PRIMARY KEY,         -- 1, 2, 3 ... without a gap since the newest baseline
    record INTEGER NOT NULL,            -- number of the record that signs this entry
    kind TEXT NOT NULL,                 -- as in held; empty for a row of lifecycle
    key TEXT NOT NULL,                  -- as in held; the Agent-ID in hexadecimal for a row of lifecycle
    leaf BLOB                           -- SHA-256 over the row as it became; NULL where the row was removed
) STRICT;

-- The Merkle tree over all records, and the checkpoints that were issued of it.

-- Hashes of the tree, up to 256 of 32 octets each. Level 0 has the leaf hashes in the order of record.number; a hash of
-- level l stands for a whole tile of level l - 1.
CREATE TABLE tile (
    level INTEGER NOT NULL,             -- 0 for leaf hashes
    number INTEGER NOT NULL,            -- 0, 1, 2 ... within the level
    hashes BLOB NOT NULL,               -- one after the other; only the last tile of a level is not full
    PRIMARY KEY (level, number)
) STRICT, WITHOUT ROWID;

-- Issued checkpoints. The newest says how far the tree goes.
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,           -- number of records it covers
    issued_at INTEGER NOT NULL,         -- milliseconds since the Unix epoch
    note TEXT NOT NULL,                 -- the signed note
    previous INTEGER NOT NULL DEFAULT 0 -- size of the checkpoint before it; 0 for the first
) STRICT;

-- Octets written and removed again to learn whether a failed store takes writes once more.
CREATE TABLE probe (
    filler BLOB NOT NULL                -- zeros
) STRICT;
