"""Agents that mix up what they keep: of several sessions, of several turns, of before and now."""

from __future__ import annotations

import os

from clean import Clean
from rpc import Cancelled, Json, Request, RpcError
from situations import Session

RESOURCE_NOT_FOUND = -32002


class ListFilterIsAPrefix(Clean):
    """Lists sessions of directories below the one asked for, too."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return [each for each in super().listed(None, cursor) if cwd is None or each["cwd"].startswith(cwd)]


class LoadsTurnsBackwards(Clean):
    """Replays the last turn first."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        turns: list[list[Json]] = []
        for update in session.history:
            if update["sessionUpdate"] == "user_message_chunk":
                turns.append([])
            turns[-1].append(update)
        for turn in reversed(turns):
            for update in turn:
                self.update(session, update)
        return self.state(session)


class LoadsTheUserAsTheAgent(Clean):
    """Replays what the user said as if the agent had said it."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in session.history:
            kind = update["sessionUpdate"].replace("user_message", "agent_message")
            self.update(session, {**update, "sessionUpdate": kind})
        return self.state(session)


class LoadsNothing(Clean):
    """Answers that a session that never was is loaded."""

    async def load_session(self, request: Request) -> Json:
        if request.params.get("sessionId") not in self.sessions:
            self.directory(request)
            return {}
        return await super().load_session(request)


class TakesAnyValue(Clean):
    """Takes a value of a config option that is not among its values."""

    async def set_config_option(self, request: Request) -> Json:
        session = self.session(request)
        session.pace = str(request.params.get("value"))
        return {"configOptions": self.config(session)}


class OneModeForAll(Clean):
    """Changes the mode of all sessions."""

    async def set_mode(self, request: Request) -> Json:
        result = await super().set_mode(request)
        for session in self.sessions.values():
            session.mode = request.params["modeId"]
        return result


class ResumesInAnUnlistedMode(Clean):
    """Resumes a session in a mode, and with a value of an option, that it does not list."""

    async def resume_session(self, request: Request) -> Json:
        state = self.state(self.reopened(request))
        state["modes"]["currentModeId"] = "plan"
        state["configOptions"][0]["currentValue"] = "slow"
        return state


class ToolIdsAgain(Clean):
    """Gives the tool call of each turn the id of the one before."""

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        session.tools = 0
        return super().tool_call(session, title, kind)


class CancelsAllSessions(Clean):
    """Cancels the turns of all sessions."""

    def cancel_session(self, params: Json) -> None:
        for session in self.sessions.values():
            if session.turn:
                self.cancel(session.turn)


class CancelWaitsForAPrompt(Clean):
    """A cancel without a turn is kept for the next prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.doomed: set[str] = set()

    def cancel_session(self, params: Json) -> None:
        session = self.sessions.get(params["sessionId"])
        if session and not session.turn:
            self.doomed.add(session.id)
        super().cancel_session(params)

    async def turn(self, session: Session, text: str) -> str:
        if session.id in self.doomed:
            self.doomed.remove(session.id)
            raise Cancelled
        return await super().turn(session, text)


class PromptsTheClosed(Clean):
    """Takes a prompt in a session that was closed."""

    def session(self, request: Request) -> Session:
        session = self.sessions.get(self.param(request, "sessionId", str))
        if session is None:
            raise RpcError(RESOURCE_NOT_FOUND, "There is no such session")
        return session


class TakesItsReplayForHistory(Clean):
    """Remembers what it replays, so that the next replay has it twice."""

    async def load_session(self, request: Request) -> Json:
        state = await super().load_session(request)
        session = self.reopened(request)
        session.history += list(session.history)
        return state


class WorksInTheFolderOfItsProcess(Clean):
    """Resolves paths against the folder that it was started in."""

    async def prompt(self, request: Request) -> Json:
        self.session(request).cwd = os.getcwd()
        return await super().prompt(request)


class ReportsToTheNewest(Clean):
    """Reports every turn to the newest session."""

    def update(self, session: Session, update: Json) -> None:
        super().update(list(self.sessions.values())[-1], update)


class ReportsOneOption(Clean):
    """Tells only the option that it has changed."""

    def reported(self, session: Session) -> Json:
        return self.config(session)[:1]


class TellsAllOfAMode(Clean):
    """Tells every session of the mode that is set in one."""

    async def set_mode(self, request: Request) -> Json:
        result = await super().set_mode(request)
        for session in self.sessions.values():
            self.update(session, {"sessionUpdate": "current_mode_update", "currentModeId": request.params["modeId"]})
        return result


class StaysInItsFirstFolder(Clean):
    """Opens a session again in the folder that it was made in."""

    def reopened(self, request: Request) -> Session:
        known = self.sessions.get(self.param(request, "sessionId", str))
        before = known.cwd if known else ""
        session = super().reopened(request)
        session.cwd = before
        return session


class TellsNoZone(Clean):
    """Says when a session was active by the clock on the wall."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return [{**each, "updatedAt": "2026-01-02T03:04:05"} for each in super().listed(cwd, cursor)]
