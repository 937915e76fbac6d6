-- Version 13: hashes of sessions, tasks and paths in blocks, by which these are found. The host writes them with the blocks
-- of record_block, and for those that are there.

CREATE TABLE record_hash (
    number INTEGER PRIMARY KEY,         -- that of the block in record_block
    sessions BLOB NOT NULL,             -- hash of each record's session, 4 octets, little end first; see agtphost/stores/record_hashes.py
    tasks BLOB NOT NULL,                -- of each task
    paths BLOB NOT NULL                 -- of each path
) STRICT;

-- A commit wrote a page for each of these. Searches read blocks in their place.
DROP INDEX record_facet;
DROP INDEX record_session;
DROP INDEX record_task;
DROP INDEX record_path;
