-- Version 7. Which rows of `held` and `lifecycle` each record changed: so that `agtp audit verify` can name a changed row.

-- Append-only but for a baseline, which lists every row anew. The record that wrote an entry signs a digest over it.
CREATE TABLE state_change (
    number INTEGER PRIMARY KEY,         -- 1, 2, 3 ... without a gap since the newest baseline
    record INTEGER NOT NULL,            -- number of the record that signs this entry
    kind TEXT NOT NULL,                 -- as in held; empty for a row of lifecycle
    key TEXT NOT NULL,                  -- as in held; the Agent-ID in hexadecimal for a row of lifecycle
    leaf BLOB                           -- SHA-256 over the row as it became; NULL where the row was removed
) STRICT;
