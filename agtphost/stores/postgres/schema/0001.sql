-- Version 1. Tables and columns are those of SQLite (stores/schema), and one row that every writer locks first.
-- Identifiers are raw octets (32 for an Agent-ID or Audit-ID), times are milliseconds since the Unix epoch.

-- The one row that a transaction locks before it reads or writes anything else. So there is one writer at a time, and
-- what the row says is true for whoever has locked it.
CREATE TABLE store (
    one integer PRIMARY KEY CHECK (one = 1), -- there is one row
    schema integer NOT NULL,            -- version of these tables
    readable_from integer NOT NULL,     -- the earliest version whose programs can use these tables
    server_id text NOT NULL,            -- the host that the records are of
    last bigint NOT NULL CHECK (last >= 0), -- number of the newest record
    issued_at bigint NOT NULL CHECK (issued_at >= 0), -- its time: the signed time never goes back, for any writer
    news bigint NOT NULL CHECK (news >= 0), -- counts transactions: a writer that finds another number reads everything anew
    term bigint NOT NULL CHECK (term >= 0), -- fencing token: grows with every holder, and a holder of an earlier term cannot commit
    holder text NOT NULL,               -- who may write: a JSON object with name, machine and state directory; empty where the last one stopped
    beat timestamptz NOT NULL           -- when the holder wrote last, by the database's clock
) WITH (fillfactor = 10);

-- One row per chain: each responding agent has one, and the host its own.
CREATE TABLE chain (
    number bigint PRIMARY KEY,          -- stands for the chain in the other tables
    agent_id bytea NOT NULL UNIQUE      -- the responding agent; empty for the host's own chain
);

-- Every signed record, append-only.
CREATE TABLE record (
    number bigint PRIMARY KEY,          -- 1, 2, 3 ... in order of arrival in this store
    chain bigint NOT NULL REFERENCES chain, -- the chain it is part of
    seq bigint NOT NULL,                -- 1, 2, 3 ... within the chain
    audit_id bytea NOT NULL,            -- SHA-256 of the signed octets
    previous bigint NOT NULL,           -- number of the record before it in the chain, whose audit_id it has signed; 0 for the first
    kind integer NOT NULL,              -- 0 Attribution-Record, 1 lifecycle event
    format integer NOT NULL,            -- 0 JWS Compact, 1 COSE_Sign1
    issued_at bigint NOT NULL,          -- the signed time; never goes back within a chain
    status integer NOT NULL,            -- AGTP status of the response
    method text NOT NULL,               -- method of the request; empty where it was never understood
    path text NOT NULL,                 -- path of the request, without its query
    caller bytea NOT NULL,              -- Agent-ID of the caller; empty where there was none
    signed bytea NOT NULL,              -- the octets that were signed and sent
    CONSTRAINT record_place UNIQUE (chain, seq), -- no gap can be filled twice
    CONSTRAINT record_successor UNIQUE (chain, previous) -- no fork: a record has at most one successor
);
-- Signatures do not compress.
ALTER TABLE record ALTER COLUMN signed SET STORAGE EXTERNAL;

-- Finds a record by its Audit-ID.
CREATE INDEX record_audit_id ON record (substr(audit_id, 1, 8));

-- The lifecycle stream of an agent is the events of its chain; there are few.
CREATE INDEX record_event ON record (chain, seq) WHERE kind = 1;

-- The present lifecycle state of every agent that ever changed it.
CREATE TABLE lifecycle (
    agent_id bytea PRIMARY KEY,         -- whose state it is
    status text NOT NULL,               -- active, suspended, deprecated or retired
    since text NOT NULL,                -- issued_at of the event that led here, RFC 3339
    reason text,                        -- what that event gave as its reason
    successor text,                     -- successor_agent_id of DEPRECATE
    deadline text,                      -- migration_deadline of DEPRECATE, RFC 3339
    org_domain text                     -- the domain whose end led here; NULL where something else did
);

-- Keyed requests: Idempotency-Key of core v08 section 5.5.
CREATE TABLE reservation (
    name bytea PRIMARY KEY,             -- SHA-256 of the agent and its key; the key is not kept
    digest bytea NOT NULL,              -- of the request that the key was first used for
    reserved_at bigint NOT NULL,        -- for expiry
    result bytea,                       -- what a repeat is answered from; NULL while unanswered
    owner bytea,                        -- who may have so many: a hash
    seal bytea NOT NULL DEFAULT '',     -- the host's signature over the claim
    record bigint NOT NULL DEFAULT 0    -- number of the record that answered, which has signed a digest of this row; 0 while unanswered
);
CREATE INDEX reservation_age ON reservation (reserved_at);

-- What an agent's keyed requests take, so that no agent fills the disk with answers. A row goes with the last of them; the
-- row with an empty owner counts those of all agents together.
CREATE TABLE keyed (
    owner bytea PRIMARY KEY,            -- as in reservation
    keys bigint NOT NULL,               -- how many there are
    octets bigint NOT NULL,             -- of their stored answers
    since bigint NOT NULL,              -- none of them is older
    digest bytea NOT NULL DEFAULT ''    -- of the row's other columns
);

-- Durable state of built-in methods: escalations, proposals, contracts and the like.
CREATE TABLE held (
    kind text COLLATE "C" NOT NULL,     -- what it is
    key text COLLATE "C" NOT NULL,      -- unique within its kind
    owner bytea NOT NULL,               -- Agent-ID of the agent it belongs to; empty where it is the host's
    version bigint NOT NULL,            -- 1, 2, 3 ...: a change that was decided on another version is refused
    expires_at bigint,                  -- from when on it counts as absent; NULL for never
    value bytea NOT NULL,               -- JSON
    PRIMARY KEY (kind, key)
);
CREATE INDEX held_age ON held (expires_at) WHERE expires_at IS NOT NULL;

-- Which rows of held and lifecycle each record changed, so that `agtp audit verify` can name a changed row.
-- Append-only but for a baseline, which lists every row anew. The record that wrote an entry signs a digest over it.
CREATE TABLE state_change (
    number bigint PRIMARY KEY,          -- 1, 2, 3 ... without a gap since the newest baseline
    record bigint NOT NULL,             -- number of the record that signs this entry
    kind text NOT NULL,                 -- as in held; empty for a row of lifecycle
    key text NOT NULL,                  -- as in held; the Agent-ID in hexadecimal for a row of lifecycle
    leaf bytea                          -- SHA-256 over the row as it became; NULL where the row was removed
);

-- Hashes of the tree over all records, up to 256 of 32 octets each. Level 0 has the leaf hashes in the order of
-- record.number; a hash of level l stands for a whole tile of level l - 1.
CREATE TABLE tile (
    level bigint NOT NULL,              -- 0 for leaf hashes
    number bigint NOT NULL,             -- 0, 1, 2 ... within the level
    hashes bytea NOT NULL,              -- one after the other; only the last tile of a level is not full
    PRIMARY KEY (level, number)
);
ALTER TABLE tile ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- Issued checkpoints. The newest says how far the tree goes.
CREATE TABLE checkpoint (
    size bigint PRIMARY KEY,            -- number of records it covers
    issued_at bigint NOT NULL,          -- milliseconds since the Unix epoch
    note text NOT NULL,                 -- the signed note
    previous bigint NOT NULL DEFAULT 0  -- size of the checkpoint before it; 0 for the first
);

-- Octets written and removed again to learn whether a failed store takes writes once more.
CREATE TABLE probe (
    filler bytea NOT NULL               -- zeros
);
-- Zeros that were compressed would prove nothing.
ALTER TABLE probe ALTER COLUMN filler SET STORAGE EXTERNAL;
