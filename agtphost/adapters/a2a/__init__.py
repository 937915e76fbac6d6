"""
Host A2A agents behind AGTP: adapters section 1.2, A2A 1.0, and 0.3 for reading.

:mod:`.card` checks an agent's card, with the keys of :mod:`.card_keys`; :mod:`.dialects` writes requests and reads
    answers, :mod:`.legacy` those of 0.3;
    :mod:`.agent` is one agent; :mod:`.tasks` follows events; :mod:`.messages` reads messages of callers;
    :mod:`.handlers` has the actions and :mod:`.bindings` their bindings; :mod:`.adapter` resolves what EXECUTE names.
    :mod:`.relay` carries whole operations for A2A clients of the front, :mod:`.relay_requests` translates their ids;
    :mod:`.front_tasks` keeps the clients' tasks with the host's own agents.
"""

from agtphost.adapters.a2a.adapter import A2AAdapter
from agtphost.adapters.a2a.agent import A2AAgent
from agtphost.adapters.a2a.card import CardKey

__all__ = ["A2AAdapter", "A2AAgent", "CardKey"]
