-- Version 6. The domain whose end led to a state has a column of its own; before, the reason said so in words.

ALTER TABLE lifecycle ADD COLUMN org_domain TEXT; -- the domain whose end led here; NULL where something else did

UPDATE lifecycle SET org_domain = replace(substr(reason, 21), '; deprecated before', '')
WHERE status IN ('suspended', 'deprecated') AND reason LIKE 'org-domain-expired: _%';
