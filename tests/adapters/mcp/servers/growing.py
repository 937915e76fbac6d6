"""A server of 2026-07-28 that has one more tool at each listing, and announces none; standard library alone."""

from __future__ import annotations

import json
import sys

TTL = int(sys.argv[1])


def main() -> None:
    listings = 0
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        else:
            listings += 1
            tools = [{"name": f"tool{n}", "inputSchema": {"type": "object"}} for n in range(listings)]
            result = {"tools": tools, "ttlMs": TTL}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
