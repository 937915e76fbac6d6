-- readable_from: 1
-- Version 3: what records are found by, and the numbers of what hosts published. The tables are new and the others stay as
-- they are, so a host of an earlier version can go on. agtphost/stores/postgres/index_filling.py then adds rows for the
-- records that are there.

CREATE TABLE facet (
    number bigint PRIMARY KEY,          -- stands for the combination in record_index
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

-- A row for each record, but for the newest ones after a host of an earlier version wrote them.
CREATE TABLE record_index (
    number bigint PRIMARY KEY,          -- of the record
    session text NOT NULL,              -- Session-ID; empty where there was none
    task text NOT NULL,                 -- Task-ID; empty where there was none
    path text NOT NULL,                 -- the first 64 characters of the record's path
    facet bigint NOT NULL               -- number of its facet; 0 where the record cannot be read
);
CREATE INDEX record_facet ON record_index (facet, number);
CREATE INDEX record_session ON record_index (session, number) WHERE session <> '';
CREATE INDEX record_task ON record_index (task, number) WHERE task <> '';
CREATE INDEX record_path ON record_index (path, number) WHERE path <> '/';

-- The numbers of manifests and surfaces, so that no host gives one number to two contents.
CREATE TABLE published (
    one integer PRIMARY KEY CHECK (one = 1), -- there is one row
    value text NOT NULL                 -- a JSON object: the history, and up to which number the holder may go
);

-- Facets and times of records in blocks, as in version 12 of SQLite: what counts read in place of records.
CREATE TABLE record_block (
    number bigint PRIMARY KEY,          -- 0, 1, 2 ...: block n has the records from n * 4096 + 1 to (n + 1) * 4096
    began bigint NOT NULL,              -- issued_at of its first record
    sums bytea NOT NULL,                -- facet and number of its records in turn, 4 octets each; empty where there are more than 512 facets
    facets bytea NOT NULL,              -- facet of each record, 4 octets, little end first; 0 for one that is not there
    times bytea NOT NULL                -- issued_at of each record, 8 octets, little end first; that of the one before for one that is not there
);
