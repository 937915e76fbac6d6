"""
Attribution-Records: what was answered, to whom, provably.

- :mod:`.drafts`: what the dispatcher hands in and gets back
- :mod:`.ledger`: the reactor's side (:class:`~agtphost.iagtp.ILedger`)
- :mod:`.submission_queue`: what is submitted until it is handed over; :mod:`.group_timing`: when that is a group
- :mod:`.writer_queue`: what passes from the reactor's thread to the writer's
- :mod:`.writer`: the writer thread's side: one transaction per group; :mod:`.transaction`: one of them in the making
- :mod:`.state_keeper`: signs what changes in the tables of state, and compares them with that at a start;
  :mod:`.state_digest`: digests of rows and of whole tables; :mod:`.state_check`: which rows are not what was signed
- :mod:`.chain`: linking, timing and signing one record
- :mod:`.record_text`: what is signed of it, in the RFC 8785 form
- :mod:`.filters`: the filter language of records
- :mod:`.lifecycle`: states, transitions, and the table that every request reads
- :mod:`.verify`: the verification walk
- :mod:`.table_check`: whether the tables of a store say what was signed; :mod:`.record_check`: one row of a record;
  :mod:`.facet_check`: what records share; :mod:`.block_check`: blocks of these; :mod:`.keyed_check`: keyed requests;
  :mod:`.start_check`: the part that a start compares
- :mod:`.export`: records as JSON lines, to be verified anywhere
- :mod:`.merkle`, :mod:`.checkpoint`, :mod:`.tree`: the tree over all records, and its signed checkpoints
- :mod:`.witness`, :mod:`.remote_witness`, :mod:`.cosignature`: who remembers them outside the store
- :mod:`.agent_endings`: the state items that change in the transaction that stops their agent
- :mod:`.apply_committed`: applies a committed group to the state in memory
- :mod:`.catch_up`: takes over what another process wrote to the store
- :mod:`.watchers`, :mod:`.observed_records`: the watchers of sealed records, and what they see of them;
  :mod:`.ledger_watch`: a service that watches while it runs; :mod:`.observers`: the operator's own, at their own pace
- :mod:`.state`: durable state of built-in methods, committed together with records; :mod:`.state_item`: one item of it;
  :mod:`.item_tables`: all of one kind; :mod:`.prepared_items`: items that are made ready before their transaction
- :mod:`.configurations`: the events that tell of the host's configuration
- :mod:`.leases`: watchers of both, which end together with the configuration that they belong to
- :mod:`.acceptance`: on record: that the operator went on with a store although its witness contradicted it
- :mod:`.domains`: domains that expired, were renewed, or went to another owner
- :mod:`.keyed`: keyed requests: what an agent's stored answers may take, and what is kept of one that is too long
- :mod:`.host_clock`: the host's time, and what jumps of the system's clock come to; :mod:`.clock_watch`: puts them on
  record
- :mod:`.interfaces`: what the ledger promises, and what it asks of a witness
- :mod:`.record_references`: a body that names its event, an item that names its record
- :mod:`.space`: whether the store's disk has room; :mod:`.outage`: which failures of a store the log has not had yet
- :mod:`.recovery`: what a ledger reads from its store before it serves, and how it reports damage
- :mod:`.retention`: what is kept of a revoked or deprecated agent, for how long, and when its label is free
- :mod:`.list_reads`: records that count repeated reads of unchanged lists
- :mod:`.summaries`: records that summarize thousands of refusals, and of reads by unknown callers
"""
