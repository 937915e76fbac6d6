-- readable_from: 1
-- Version 2. `agtp cluster status` compares the processes of a store, and `agtp store upgrade` asks what each can use.

-- The processes of hosts that serve or stand by. Each keeps its row up to date; one that was killed leaves it behind.
CREATE TABLE process (
    id text PRIMARY KEY,                -- random, for each process
    name text NOT NULL,                 -- [cluster] name
    place text NOT NULL,                -- machine and state directory
    version text NOT NULL,              -- of agtphost
    schema integer NOT NULL,            -- the version of these tables that its program uses
    state text NOT NULL,                -- serving or standby
    settings text NOT NULL,             -- a JSON object: a digest of each kind of file that hosts have alike
    started timestamptz NOT NULL,       -- when the process wrote its first row, by the database's clock
    beat timestamptz NOT NULL           -- when it wrote last
);
