"""
CHAIN, BATCH, ROUTE, RETRY, PAUSE, RESUME of workflows, MONITOR and RUN: methods v01 section 8.

- :mod:`.calls`: the calls that they are given
- :mod:`.plan`, :mod:`.planned`: the steps of a chain; :mod:`.taint`: where generated code flows in it
- :mod:`.items`, :mod:`.journal`: what is kept of a workflow, and when it becomes true
- :mod:`.runner`: takes the steps; :mod:`.workflows`: carries on over calls, pauses, time and restarts;
  :mod:`.schedule`: when
- :mod:`.batch_turns`: when the calls of batches begin
- :mod:`.chain`, :mod:`.batch`, :mod:`.pausing`, :mod:`.retrying`, :mod:`.routing`, :mod:`.procedures`: the methods;
  :mod:`.reading`: what one sees of workflows
- :mod:`.monitoring`: MONITOR; :mod:`.monitors`: notification of subscribers; :mod:`.observing`: what they look at
- :mod:`.family`: the handlers of all of them
"""
