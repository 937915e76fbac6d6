"""
Attribution-Records: what was answered, to whom, provably.

- :mod:`.drafts`: what the dispatcher hands in and gets back
- :mod:`.ledger`: the reactor's side (:class:`~agtphost.iagtp.ILedger`)
- :mod:`.writer`: the writer thread's side: one transaction per group
- :mod:`.chain`: linking, timing and signing one record
- :mod:`.lifecycle`: states, transitions, and the table that every request reads
- :mod:`.verify`: the verification walk
- :mod:`.export`: records as JSON lines, to be verified anywhere
- :mod:`.merkle`, :mod:`.checkpoint`, :mod:`.tree`: the tree over all records, and its signed checkpoints
- :mod:`.witness`, :mod:`.remote_witness`, :mod:`.cosignature`: who remembers them outside the store
- :mod:`.held`: durable state of built-in methods, committed together with records
"""
