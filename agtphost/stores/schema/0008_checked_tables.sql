-- Version 8. What links the tables beside the records to what is signed, so that `agtp audit verify` can compare them.

ALTER TABLE reservation ADD COLUMN seal BLOB NOT NULL DEFAULT X'';     -- the host's signature over the claim; empty from before this version
ALTER TABLE reservation ADD COLUMN record INTEGER NOT NULL DEFAULT 0;  -- number of the record that answered, which has signed a digest of this row; 0 while unanswered
ALTER TABLE keyed ADD COLUMN digest BLOB NOT NULL DEFAULT X'';         -- of the row's other columns; empty from before this version
ALTER TABLE checkpoint ADD COLUMN previous INTEGER NOT NULL DEFAULT 0; -- size of the checkpoint before it; 0 for the first

UPDATE checkpoint SET previous =
    coalesce((SELECT max(earlier.size) FROM checkpoint AS earlier WHERE earlier.size < checkpoint.size), 0);
