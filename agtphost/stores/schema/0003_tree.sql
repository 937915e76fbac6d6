-- Version 3. The Merkle tree over all records, and the checkpoints that were issued of it.

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
    note TEXT NOT NULL                  -- the signed note
) STRICT;
