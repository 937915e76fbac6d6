"""
A store in a PostgreSQL database, for several machines.

- :mod:`.location`: what is asked of the store before it is opened
- :mod:`.connection`: how the database is reached, which settings are refused, and how its errors are reported;
  :mod:`.stall_guard` ends connections whose server does not answer; :mod:`.pipeline` sends several statements together
- :mod:`.error_texts`: what errors of PostgreSQL mean, and what to do
- :mod:`.replication`: whether the database has a synchronous replica
- :mod:`.takeover_rights`: whether the session of another host that froze can be ended
- :mod:`.schema_files`: how a store is made, and whether this program can use it; ``schema/`` has the tables
- :mod:`.writing`: the writing side (:class:`~agtphost.iagtp.IChainStore`); :mod:`.transactions`: how it keeps others
  out; :mod:`.statements`: what it says; :mod:`.statement_queue`: statements that wait for the next one;
  :mod:`.block_writing`: its part that writes blocks of facets and times
- :mod:`.index_filling`: rows of the index for records that a host of an earlier version wrote
- :mod:`.lease`: the right to write to it (:class:`~agtphost.stores.interfaces.ILease`); :mod:`.listening`: hears that
  it was given up
- :mod:`.processes`: the hosts that run on it
- :mod:`.reading`: the reading side (:class:`~agtphost.iagtp.IRecordReader`); :mod:`.rows`: rows as they are stored
- :mod:`.copying`: all rows, read at one moment or written in one transaction
- :mod:`.dry_run_store`: a store as a host would find it; nothing is written

Every module but :mod:`.location` imports psycopg, which the extra ``postgres`` brings. Nothing here relies on the state
of a session, so a connection pooler in transaction mode can stand between.
"""

from __future__ import annotations
