-- Version 12: facets and times of records in blocks, by which records are counted. The host writes a block in an idle
-- moment once it has all its records; those that came later are read in record itself.

CREATE TABLE record_block (
    number INTEGER PRIMARY KEY,         -- 0, 1, 2 ...: block n has the records from n * 4096 + 1 to (n + 1) * 4096
    began INTEGER NOT NULL,             -- issued_at of its first record
    sums BLOB NOT NULL,                 -- facet and number of its records in turn, 4 octets each; empty where there are more than 512 facets
    facets BLOB NOT NULL,               -- facet of each record, 4 octets, little end first; 0 for one that is not there
    times BLOB NOT NULL                 -- issued_at of each record, 8 octets, little end first; that of the one before for one that is not there
) STRICT;
