"""
CHAIN, BATCH, ROUTE, RETRY, PAUSE, RESUME of workflows, MONITOR and RUN: methods v01 section 8.

- :mod:`.calls`: what they are told to call.
- :mod:`.plan`: the steps of a chain; :mod:`.taint`: where generated code flows in it.
- :mod:`.items`, :mod:`.journal`: what is kept of a workflow, and when it becomes true.
- :mod:`.runner`: takes the steps; :mod:`.workflows`: carries on over calls, pauses, time and restarts;
  :mod:`.schedule`: when.
- :mod:`.chain`, :mod:`.batch`, :mod:`.pausing`, :mod:`.procedures`: the methods; :mod:`.reading`: what one sees.
"""
