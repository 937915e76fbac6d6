"""The witnesses of a host's log, and a host as one."""
