-- Version 10: what records are found by. agtphost/stores/upgrade.py then fills this for the records that are there.

-- What many records have in common, each combination once: a search reads these few rows, and counts are sums over them.
CREATE TABLE facet (
    number INTEGER PRIMARY KEY,         -- stands for the combination in record
    digest BLOB NOT NULL UNIQUE,        -- SHA-256 over the columns below
    agent BLOB NOT NULL,                -- Agent-ID of the responding agent; empty for the host's own chain
    caller BLOB NOT NULL,               -- Agent-ID of the caller; empty where there was none
    status INTEGER NOT NULL,            -- AGTP status of the response
    method TEXT NOT NULL,               -- method of the request
    tool TEXT NOT NULL,                 -- tool or action that was called; empty where it was something else
    reason TEXT NOT NULL,               -- why the call was refused; empty where it was not
    person TEXT NOT NULL,               -- whom the caller acted for; empty where no identity provider said so
    operator TEXT NOT NULL,             -- name of the operator who acted; empty where none did
    operator_key TEXT NOT NULL          -- fingerprint of that operator's key
) STRICT;

ALTER TABLE record ADD COLUMN session TEXT NOT NULL DEFAULT ''; -- Session-ID; empty where there was none
ALTER TABLE record ADD COLUMN task TEXT NOT NULL DEFAULT ''; -- Task-ID; empty where there was none
ALTER TABLE record ADD COLUMN facet INTEGER NOT NULL DEFAULT 0; -- number of its facet; 0 for none

-- Each index ends with the record's number, which SQLite adds: what is found is in the order in which it arrived.
CREATE INDEX record_facet ON record (facet);
CREATE INDEX record_session ON record (session) WHERE session <> '';
CREATE INDEX record_task ON record (task) WHERE task <> '';

-- Tools are called by the path "/"; other paths may be long, and their beginnings are enough.
CREATE INDEX record_path ON record (substr(path, 1, 64)) WHERE path <> '/';
