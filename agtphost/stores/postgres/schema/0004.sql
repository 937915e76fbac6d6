-- readable_from: 1
-- Version 4: hashes of sessions, tasks and paths in blocks, as in version 13 of SQLite: what searches for one of them read.
-- The table is new, and the indexes that it replaces are not UNIQUE; so a host of an earlier version can go on.

CREATE TABLE record_hash (
    number bigint PRIMARY KEY,          -- that of the block in record_block
    sessions bytea NOT NULL,            -- hash of each record's session, 4 octets, little end first; see agtphost/stores/record_hashes.py
    tasks bytea NOT NULL,               -- of each task
    paths bytea NOT NULL                -- of each path
);

DROP INDEX record_facet;
DROP INDEX record_session;
DROP INDEX record_task;
DROP INDEX record_path;
