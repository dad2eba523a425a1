"""No faults: agents that do otherwise what the specification leaves open. No case may fail them."""

from __future__ import annotations

import subprocess

from clean import Clean
from outgoing import Outgoing
from rpc import Call, Cancelled, Json, Pause, Request, RpcError
from situations import Session


class NoCancelById(Clean):
    """Ignores `$/cancel_request`."""

    def cancel_asked(self, params: Json) -> None:
        pass


class ErrorWhenCancelledById(Clean):
    """Answers a prompt that was cancelled by its id with the error -32800."""

    by_id: Request | None = None

    def cancel_asked(self, params: Json) -> None:
        self.by_id = self.named(params)
        super().cancel_asked(params)

    def cancelled(self, request: Request) -> str:
        if request is self.by_id:
            raise Cancelled
        return "cancelled"


class WaitsForTheClient(Clean):
    """Answers a cancelled prompt only after the client has answered the request in it, as "graceful" has it."""

    def cancel(self, request: Request) -> None:
        if isinstance(request.pause, Call) and not request.cancelled:
            request.cancelled = True
            self.withdraw(request.pause)
        else:
            super().cancel(request)

    def answered(self, call: Call, result: Json, error: RpcError | None) -> None:
        request = next((request for request in self.running.values() if request.pause is call), None)
        if request and request.cancelled:
            if call.late and error is None:
                call.late(result)
            self.step(request, error=Cancelled())
        else:
            super().answered(call, result, error)


class WaitsInSilence(WaitsForTheClient):
    """Withdraws nothing when it is cancelled, and hears no cancel by id."""

    def withdraw(self, call: Call) -> None:
        pass

    def cancel_asked(self, params: Json) -> None:
        pass


class LastWords(Clean):
    """Has something to say between the cancel and the answer."""

    def cancelled(self, request: Request) -> str:
        self.say(self.sessions[request.params["sessionId"]], "Stopped.")
        return super().cancelled(request)


class NoBatches(Clean):
    """Refuses arrays, each with one error."""

    def take_batch(self, values: list[Json]) -> None:
        self.refuse(None, -32600, "Messages are individual", None)


class HoldsPrompts(Clean):
    """Holds a prompt until the one before it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Request] = []

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        if session.turn:
            self.queue.append(request)
            await Pause()
        return await super().prompt(request)

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        if request.method == "session/prompt" and self.queue:
            self.step(self.queue.pop(0))


class CancelsItsQueue(HoldsPrompts):
    """Answers the prompts that it holds before the turn that is cancelled."""

    async def prompt(self, request: Request) -> Json:
        try:
            return await super().prompt(request)
        except Cancelled:
            return {"stopReason": "cancelled"}

    def cancel_session(self, params: Json) -> None:
        queue, self.queue = self.queue, []
        for request in queue:
            self.cancel(request)
        super().cancel_session(params)


class NewPromptEndsTheOld(Clean):
    """Lets a new prompt end the turn that runs."""

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        if session.turn:
            self.cancel(session.turn)
        return await super().prompt(request)


class Modest(Clean):
    """Can do nothing that is optional."""

    def __init__(self) -> None:
        super().__init__()
        needed = ("initialize", "authenticate", "session/new", "session/prompt")
        self.methods = {name: method for name, method in self.methods.items() if name in needed}

    def capabilities(self) -> dict[str, Json]:
        return {}

    def state(self, session: Session) -> dict[str, Json]:
        return {}


class ServesTheUnannounced(Modest):
    """Answers methods that it does not announce with `null`, as some libraries do for all that is not implemented."""

    def __init__(self) -> None:
        super().__init__()
        self.methods |= dict.fromkeys(("session/list", "session/close", "session/delete", "logout"), self.nothing)

    async def nothing(self, request: Request) -> Json:
        return None


class TextIds(Clean):
    """Gives its own requests ids that are strings."""

    def write(self, message: Json) -> None:
        if isinstance(message, dict) and "method" in message:
            if "id" in message:
                message = {**message, "id": f"agent-{message['id']}"}
            elif message["method"] == "$/cancel_request":
                message = {**message, "params": {"requestId": f"agent-{message['params']['requestId']}"}}
        super().write(message)

    def take_response(self, value: dict[str, Json]) -> None:
        id = value.get("id")
        if isinstance(id, str) and id.removeprefix("agent-").isdigit():
            value = {**value, "id": int(id.removeprefix("agent-"))}
        super().take_response(value)


class Talkative(Clean):
    """Reports what is no part of a turn whenever it likes, with `_meta`, and sends notifications of an extension."""

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        for session in list(self.sessions.values()):
            update = {"sessionUpdate": "session_info_update", "title": "A talk", "_meta": {"mood": "fine"}}
            self.update(session, update)
        self.notify("_conformance.example/heartbeat", {})


class WantsLogin(Clean):
    """Makes no session before the user has authenticated."""

    async def new_session(self, request: Request) -> Json:
        raise RpcError(-32000, "Authentication required")


class ServesDuplicates(Clean):
    """Serves a request though another of its id is open."""

    def take_request(self, request: Request) -> None:
        earlier = self.running.pop(self.key(request.id), None)
        super().take_request(request)
        if earlier and self.key(request.id) not in self.running:
            self.running[self.key(request.id)] = earlier


class AsksForOutput(Clean):
    """Asks for the output of its command until that has ended, and never waits for its exit."""

    async def use_terminal(self, session: Session, tool: str, terminal: str) -> None:
        where = {"sessionId": session.id, "terminalId": terminal}
        try:
            output = await self.ask("terminal/output", where)
            while not output.get("exitStatus"):
                output = await self.ask("terminal/output", where)
        except Cancelled:
            self.kill(where)
            raise
        except RpcError:
            self.tool_update(session, tool, status="failed")
            return
        finally:
            self.release(session, where)
        self.tool_update(session, tool, status="completed")


class CutAtTheEnd(Clean):
    """Does not answer the prompt that runs when its input ends."""

    def ended(self) -> None:
        pass


class SaysItOtherwise(Clean):
    """Says the same in other words each time, as a model does."""

    turns = 0

    async def do_stream(self, session: Session) -> None:
        self.turns += 1
        self.say(session, f"Turn {self.turns}: ")
        await super().do_stream(session)


class ChildEndsLater(Clean):
    """Has a process beside it that notices the agent's end somewhat later."""

    def session_id(self) -> str:
        subprocess.Popen(["sleep", "1.5"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        return super().session_id()


class ServesTheOlderProtocol(Clean):
    """Serves a request without `jsonrpc`, as version 1.0 of JSON-RPC has it."""

    def is_message(self, value: dict[str, Json]) -> bool:
        return super().is_message({"jsonrpc": "2.0", **value})


class AheadOfTheSchema(Clean):
    """Announces what the protocol has in its drafts, and what became stable after the schema of the suite."""

    def capabilities(self) -> dict[str, Json]:
        known = super().capabilities()
        known["sessionCapabilities"] |= {"systemPrompt": {"mode": {"override": {}}}, "archive": {}}
        return known | {"providers": {}, "auth": {"status": {}}}


class WritesWhenItCan(Clean):
    """Has a long update half written whenever it waits, as a runtime that writes in the background, and is ended so."""

    half = b""

    def answer(self, request: Request, message: Json) -> None:
        super().answer(request, message)
        if request.method == "session/prompt" and request.params["sessionId"] in self.sessions:
            commands = [{"name": f"command-{n}", "description": "One of many."} for n in range(500)]
            update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
            whole = {"sessionId": request.params["sessionId"], "update": update}
            line = self.encode({"jsonrpc": "2.0", "method": "session/update", "params": whole})
            self.put(line[: len(line) // 2])
            self.half = line[len(line) // 2 :]

    def put(self, data: bytes) -> None:
        half, self.half = self.half, b""
        super().put(half + data)

    def ended(self) -> None:
        super().ended()
        self.put(b"")


class EmptyChunks(Clean):
    """Sends the tokens of each step with a chunk that has no text, and replays these chunks in another place."""

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        tool = super().tool_call(session, title, kind)
        self.say(session, "")
        return tool

    async def load_session(self, request: Request) -> Json:
        history = self.sessions[request.params["sessionId"]].history
        empty = [update for update in history if update.get("content") == {"type": "text", "text": ""}]
        for update in empty:
            history.remove(update)
            history.insert(1, update)
        return await super().load_session(request)


class PendingAgain(Outgoing):
    """Reports a tool call as running as soon as it is there, and as pending again in the request for its permission."""

    def update_said(self, kind: str, update: Json, message: Json) -> None:
        if kind == "tool_call":
            update["status"] = "in_progress"

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["toolCall"]["status"] = "pending"


class EchoesInPieces(Clean):
    """Says the prompt again, each character in a chunk of its own."""

    async def turn(self, session: Session, text: str) -> str:
        if len(text) > 10_000:
            for character in text:
                self.say(session, character)
        return await super().turn(session, text)
