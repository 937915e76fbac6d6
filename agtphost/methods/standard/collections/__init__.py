"""
Collections: JSON documents that agents keep on a host, each with its owner, its version, and the chain of its owners.

- :mod:`.family`: what answers each method
- :mod:`.selection`: rows that follow criteria, found in worker processes chunk by chunk
- :mod:`.store`: which there are, and who may read and write them; :mod:`.index`: what is in them, in order
- :mod:`.search`: SEARCH and SCAN
- :mod:`.fetch`: FETCH, and what else a resource may be
- :mod:`.registration`: REGISTER and IMPORT
- :mod:`.relations`: LINK and EMBED
- :mod:`.sync`: SYNC
"""
