"""How the steps of a chat are kept: each as one transaction, which changes nothing if the chat is another node's."""

from __future__ import annotations

from acp_server.gateway.conversations import Conversations
from acp_server.gateway.live_chat import Keep, Step
from acp_server.gateway.messages import Message
from acp_server.gateway.records import Status
from acp_server.gateway.rows import Rows
from acp_server.gateway.store import Store, Unsure


def keep_steps(store: Store, conversations: Conversations, node: int, query: Message | None) -> Keep:
    """Keeps the steps of a chat that this node works for. `query`: the message that it replies to, if that was in the
    conversation before."""

    async def keep(step: Step) -> None:
        try:
            await store.do(_keep, step)
        except Unsure:
            # What was done the first time is not done again.
            await store.do(_keep, step)

    def _keep(rows: Rows, step: Step) -> None:
        after = step.after
        if not after.saved:
            keep_unsaved(rows, step)
            return
        if step.messages and rows.has_place(after.conversation_id, step.messages[0].id):
            return
        rows.move_chat(step.before, after, node, done=step.done)
        for message in step.messages:
            rows.add_message(message)
        if step.also is not None:
            step.also(rows)

    def keep_unsaved(rows: Rows, step: Step) -> None:
        if step.done:
            rows.remove_chat(step.after.id, node)
        else:
            rows.move_chat(step.before, step.after, node)
        if step.after.status is Status.CANCELED and query is not None:
            # Of a chat that is not saved this is all that remains: there was no query, if it was cancelled.
            conversations.forget_message(rows, query)

    return keep
