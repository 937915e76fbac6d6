-- Version 5. What the keyed requests of all agents take together: the row of `keyed` with an empty owner.

INSERT INTO keyed (owner, keys, octets, since)
SELECT X'', sum(keys), sum(octets), min(since) FROM keyed HAVING count(*) > 0;
