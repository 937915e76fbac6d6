"""
CHAIN, BATCH, ROUTE, RETRY, PAUSE, RESUME of workflows, MONITOR and RUN: methods v01 section 8.

- :mod:`.call_readers`: the calls that they are given
- :mod:`.plan`, :mod:`.planned_step`: the steps of a chain; :mod:`.taint`: where generated code flows in it
- :mod:`.workflow_items`, :mod:`.journal`: what is kept of a workflow, and when it becomes true
- :mod:`.runner`: takes the steps; :mod:`.workflows`: carries on over calls, pauses, time and restarts;
  :mod:`.schedule`: when
- :mod:`.batch_turns`: when the calls of batches begin
- :mod:`.chain`, :mod:`.batch`, :mod:`.pause`, :mod:`.retry`, :mod:`.route`, :mod:`.procedures`: the methods;
  :mod:`.workflow_queries`: what one sees of workflows
- :mod:`.monitor_methods`: MONITOR; :mod:`.monitors`: notification of subscribers; :mod:`.monitor_state`: what they look
  at
- :mod:`.family`: the handlers of all of them
"""
