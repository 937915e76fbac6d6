-- Version 11: a facet has no names that callers may have invented, so all facets are made again.
-- agtphost/stores/upgrade.py then does so for the records that are there. The tables stay those of version 10.

DELETE FROM facet;
