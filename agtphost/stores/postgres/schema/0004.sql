-- Version 4: a facet has no names that callers may have invented, so all facets are made again, as in version 11 of
-- SQLite. agtphost/stores/postgres/schema_files.py then does so for the records that are there. The tables stay those of
-- version 3.

DELETE FROM facet;
