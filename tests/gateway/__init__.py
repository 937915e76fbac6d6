"""The HTTP gateway in memory: what it is built from, and which methods it describes."""
