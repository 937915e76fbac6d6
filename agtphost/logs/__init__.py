"""
The host's log: access lines, the call that a line belongs to, lines as JSON objects, and lines that repeat.

- :mod:`.access_log`: a line for each request, where ``[log] access`` asks for it
- :mod:`.call_events`: marks lines that are logged during a call
- :mod:`.json_log`: one JSON object a line
- :mod:`.log_throttle`: lines that strangers could repeat without end are written a few times
"""
