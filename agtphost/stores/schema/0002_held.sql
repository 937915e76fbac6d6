-- Version 2. Durable state of built-in methods: escalations, proposals, contracts and the like.

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
