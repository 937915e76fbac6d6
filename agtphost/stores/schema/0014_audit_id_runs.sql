-- Version 14: runs of 512 records in the index of Audit-IDs, of 2,048 before. Audit-IDs come in random order: eight records
-- of a commit wrote six pages of a longer run, and write two of a shorter one. A search asks four times as many runs.

DROP INDEX record_audit_id;
CREATE INDEX record_audit_id ON record (number >> 9, substr(audit_id, 1, 8));
