"""A client on the official SDK 0.3: gets an address and a text, and prints as JSON what it saw there."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, A2AClient
from a2a.types import (
    GetTaskRequest,
    Message,
    MessageSendParams,
    PushNotificationConfig,
    SendMessageRequest,
    SendStreamingMessageRequest,
    SetTaskPushNotificationConfigRequest,
    TaskPushNotificationConfig,
    TaskQueryParams,
)


def sent(text: str) -> MessageSendParams:
    message = {"messageId": uuid.uuid4().hex, "role": "user", "parts": [{"kind": "text", "text": text}]}
    return MessageSendParams(message=Message.model_validate(message))


def name() -> str:
    return uuid.uuid4().hex


async def told(home: str, text: str) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=30) as web:
        card = await A2ACardResolver(web, home).get_agent_card()
        client = A2AClient(web, agent_card=card)
        answer = (await client.send_message(SendMessageRequest(id=name(), params=sent(text)))).root.result
        artifact = answer.artifacts[0].parts[0].root
        states = []
        async for event in client.send_message_streaming(SendStreamingMessageRequest(id=name(), params=sent(text))):
            status = getattr(event.root.result, "status", None)
            states += [status.state.value] if status else []
        unknown = await client.get_task(GetTaskRequest(id=name(), params=TaskQueryParams(id="none")))
        config = TaskPushNotificationConfig(
            task_id="none", push_notification_config=PushNotificationConfig(url="https://example.com/hook")
        )
        push = await client.set_task_callback(SetTaskPushNotificationConfigRequest(id=name(), params=config))
        return {
            "card": [card.name, card.protocol_version, card.preferred_transport],
            "sent": [answer.status.state.value, getattr(artifact, "text", "")],
            "streamed": states,
            "unknown": unknown.root.error.code,
            "push": push.root.error.code,
        }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(told(*sys.argv[1:]))))
