-- Version 4. Whose the keyed requests are, and how much of each agent's is kept: so that nobody fills the disk with answers.

ALTER TABLE reservation ADD COLUMN owner BLOB;  -- who may have so many: a hash; NULL from before this version, and counted for nobody

-- What an agent's keyed requests take; a row goes with the last of them.
CREATE TABLE keyed (
    owner BLOB NOT NULL PRIMARY KEY,    -- as in reservation
    keys INTEGER NOT NULL,              -- how many there are
    octets INTEGER NOT NULL,            -- of their stored answers
    since INTEGER NOT NULL              -- none of them is older
) STRICT, WITHOUT ROWID;
