-- Version 3: what records are found by, as in version 10 of SQLite. agtphost/stores/postgres/schema_files.py then fills
-- this for the records that are there.

CREATE TABLE facet (
    number bigint PRIMARY KEY,          -- stands for the combination in record
    digest bytea NOT NULL UNIQUE,       -- SHA-256 over the columns below
    agent bytea NOT NULL,               -- Agent-ID of the responding agent; empty for the host's own chain
    caller bytea NOT NULL,              -- Agent-ID of the caller; empty where there was none
    status integer NOT NULL,            -- AGTP status of the response
    method text NOT NULL,               -- method of the request
    tool text NOT NULL,                 -- tool or action that was called; empty where it was something else
    reason text NOT NULL,               -- why the call was refused; empty where it was not
    person text NOT NULL,               -- whom the caller acted for; empty where no identity provider said so
    operator text NOT NULL,             -- name of the operator who acted; empty where none did
    operator_key text NOT NULL          -- fingerprint of that operator's key
);

ALTER TABLE record
    ADD COLUMN session text NOT NULL DEFAULT '', -- Session-ID; empty where there was none
    ADD COLUMN task text NOT NULL DEFAULT '',    -- Task-ID; empty where there was none
    ADD COLUMN facet bigint NOT NULL DEFAULT 0;  -- number of its facet; 0 for none

CREATE INDEX record_facet ON record (facet, number);
CREATE INDEX record_session ON record (session, number) WHERE session <> '';
CREATE INDEX record_task ON record (task, number) WHERE task <> '';
CREATE INDEX record_path ON record (substr(path, 1, 64), number) WHERE path <> '/';
