"""
INSPECT: records, decisions, definitions, proofs and upstreams, for those who may see them.

- :mod:`.inspect`: INSPECT
- :mod:`.access`: who may read signed records, by INSPECT or any other method
- :mod:`.agents`: every agent that the host knows, and the heads of the chains
- :mod:`.backups`: who backs the host up
- :mod:`.call_targets`: calls of all agents, past and present; :mod:`.record_counts`: counts of them
- :mod:`.decisions`: INSPECT ``target=decision``: whether an agent may make a call, and which gate says so
- :mod:`.definitions`: ``INSPECT target=endpoint``: the definition of one endpoint, as in the manifest, in a
  separate document
- :mod:`.feed`: what was recorded, as it is recorded
- :mod:`.operator_targets`: what single parts of the host say of themselves
- :mod:`.proofs`: INSPECT of the tree over all records: checkpoints and proofs
- :mod:`.sessions`: sessions of all agents, and suspended sessions and tasks
- :mod:`.several`: several questions in one request, and one record of them
- :mod:`.tools`: every tool behind the host, those that are off included
- :mod:`.traffic`: calls of the last hour by the minute
- :mod:`.latencies`: latencies by tool and by agent
- :mod:`.upstreams`: ``INSPECT target=upstreams``: what the host's upstreams are up to, for operators
"""
