"""The client under test from the agent's view, which is the argument of a case.

    request = await client.prompt()                     # initialize, session/new, session/prompt: a turn is running
    ask = await client.ask("fs/read_text_file", {...})  # a request to the client
    answer = await client.answer(ask)                   # its response: an object with `result` or `error`
    await client.alive()                                # the client still answers
    await client.user("cancel")                         # the user's input of a situation
    await client.end_turn()

`prompt` (or `begin_trial`) begins the trial of the rule. A missing message before that skips the case. A missing
message after that breaks the rule.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio

from acp_conformance.core.case import fail, not_applicable, skip
from acp_conformance.core.schema import announced

from .conversation import Ask, Conversation, Message
from .dialect import Dialect
from .stage import Stage

PROBE = "_conformance/are_you_there"
PYTHON = [sys.executable, "-I", "-S", "-c"]

Answer = dict[str, Any]


class Client:
    """A client, and one agent process that it has started."""

    def __init__(self, stage: Stage, conversation: Conversation) -> None:
        self.stage = stage
        self.conversation = conversation
        self.trying = False
        """Whether the case has got as far as its rule."""
        self.capabilities: dict[str, Any] = {}
        """The client's capabilities."""
        self.session_id = ""
        self.cwd = ""
        """The working directory that the client named for its session."""
        self._turn: Message | None = None

    @property
    def dialect(self) -> Dialect:
        """The judged version."""
        return self.conversation.dialect

    @property
    def folder(self) -> Path:
        """The folder for the files of the case."""
        return Path(self.stage.folder)

    # -- the opening

    def begin_trial(self) -> None:
        """Begin the trial of the rule."""
        self.trying = True

    async def initialize(self, **fields: Any) -> Message:
        """Answer `initialize` like a simple agent, with `fields` added to the response, and return the request."""
        request = await self.greeting()
        await self.welcome(request, **fields)
        return request

    async def greeting(self) -> Message:
        """Return the `initialize` request without answering it."""
        request = await self.conversation.receive("initialize", self.conversation.pace.starting)
        self.conversation.pace.started(anyio.current_time() - self.stage.began)
        self.dialect.asked(request.param("protocolVersion"))
        capabilities = request.param(self.dialect.capabilities)
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        return request

    async def welcome(self, request: Message, **fields: Any) -> None:
        """Answer the `initialize` request."""
        result = self.dialect.hello(**fields)
        await self.conversation.release("initialize")
        self.conversation.capabilities = result.get(self.dialect.agent_capabilities) or {}
        await self.conversation.reply(request, result)

    async def session(self) -> Message:
        """Answer `session/new`, and return the request."""
        request = await self._step("session/new")
        cwd = request.param("cwd")
        self.cwd = cwd if isinstance(cwd, str) else ""
        await self.conversation.release("session/new")
        self.session_id = self.conversation.new_session_id()
        await self.conversation.reply(request, {"sessionId": self.session_id})
        return request

    async def prompt(self, **fields: Any) -> Message:
        """Let the client begin a turn, which stays open, and return the prompt."""
        await self.initialize(**fields)
        await self.session()
        return await self.prompted()

    async def prompted(self) -> Message:
        """Wait for the prompt, begin its turn, which stays open, and return the prompt."""
        await self.arrived()
        await self.begin_turn()
        return self.turn

    async def arrived(self) -> Message:
        """Wait for the prompt, and return it without beginning its turn."""
        self._turn = await self._step("session/prompt")
        self.begin_trial()
        await self.conversation.release("session/prompt")
        return self._turn

    @property
    def turn(self) -> Message:
        """Return the prompt of the turn."""
        assert self._turn is not None
        return self._turn

    async def begin_turn(self) -> None:
        """Begin the turn of the prompt. On version 2 this answers the prompt."""
        await self.dialect.begin_turn(self.conversation, self.turn)

    async def end_turn(self, reason: str = "end_turn") -> None:
        """End the turn."""
        await self.dialect.end_turn(self.conversation, self.turn, reason)

    async def _step(self, method: str) -> Message:
        """Return the next request of the opening, and measure its time. The time-out is long, because the rule is not
        tried yet."""
        began = anyio.current_time()
        pace = self.conversation.pace
        request = await self.conversation.receive(method, None if self.trying else pace.starting)
        pace.answered(anyio.current_time() - began)
        return request

    # -- during a turn

    async def ask(self, method: str, params: dict[str, Any], **id: Any) -> Ask:
        """Send a request of the session with the id `id`, or with a new id."""
        return await self.conversation.ask(method, {"sessionId": self.session_id, **params}, **id)

    async def answer(self, ask: Ask) -> Answer:
        """Return the response to `ask`: an object with `result` or `error`."""
        return await self.conversation.answer(ask)

    async def call(self, method: str, params: dict[str, Any]) -> Answer:
        """Send a request of the session and wait for its response."""
        return await self.answer(await self.ask(method, params))

    async def result(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request of the session, and return its result. An error breaks the rule."""
        answer = await self.call(method, params)
        if "result" not in answer:
            fail(f"{method} was answered with {brief(answer)}")
        return answer["result"]

    async def update(self, update: dict[str, Any]) -> None:
        """Send a `session/update`."""
        await self.conversation.notify("session/update", {"sessionId": self.session_id, "update": update})

    async def say(self, text: str) -> None:
        """Send a piece of the agent's message."""
        await self.update(self.dialect.message(text))

    async def alive(self) -> None:
        """Check that the client still answers requests, and so has read all earlier messages.

        The client must refuse an unknown method. If it does not answer, it may instead answer a request to read a file.
        """
        asks = [await self.conversation.ask(PROBE, {})]
        if announced(self.capabilities, "fs.readTextFile"):
            (self.folder / "life.txt").write_text("alive\n")
            asks.append(await self.ask("fs/read_text_file", {"path": str(self.folder / "life.txt")}))
        await self.conversation.until(
            lambda: next((ask for ask in asks if ask.answers), None), "a sign of life (an answer to an unknown method)"
        )

    async def nothing_answered(self, what: str) -> None:
        """Check that the client still answers, and has answered only requests."""
        await self.alive()
        if self.conversation.strays:
            fail(f"{what} was answered with {brief(self.conversation.strays[0])}")

    # -- the user

    async def user(self, situation: str, **values: object) -> None:
        """Type the user's input of a situation."""
        await self.stage.user(situation, **values)

    async def cancelled(self) -> Message:
        """Let the user stop the turn, and wait for `session/cancel`."""
        self.conversation.hold("session/cancel")  # a request of this name is for the case, too
        await self.user("cancel")
        return await self.conversation.receive("session/cancel")

    # -- requirements of a case

    def require(self, capability: str) -> None:
        """End the case unless the client announces `capability`, such as `fs.readTextFile`."""
        if not announced(self.capabilities, capability):
            not_applicable(f"the client does not announce {capability}")

    def outside(self, answer: Answer) -> None:
        """End the case if the client may have refused a file because it is outside the session's folder."""
        try:
            inside = bool(self.cwd) and self.folder.is_relative_to(Path(self.cwd).resolve())
        except (OSError, ValueError):  # no folder can have such a name
            inside = False
        if "error" in answer and not inside:
            skip(f"the session is in {self.cwd}, and {self.folder} was refused: name {{cwd}} in the command")


def brief(value: object) -> str:
    """Return a value as one short line."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
