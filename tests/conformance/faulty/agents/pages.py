"""Faults in lists of several pages, in what a loaded session replays, and in what a list says of a session."""

from __future__ import annotations

from clean import PAGE, Clean
from rpc import INVALID_PARAMS, Json, Request, RpcError


class SkipsBetweenPages(Clean):
    """Leaves a session out where one page ends and the next begins."""

    def page(self, listed: list[Json], cursor: Json) -> dict[str, Json]:
        page = super().page(listed, cursor)
        return page if cursor is None else {**page, "sessions": page["sessions"][1:]}


class RepeatsBetweenPages(Clean):
    """Begins each page with the session that ended the page before."""

    def page(self, listed: list[Json], cursor: Json) -> dict[str, Json]:
        page = super().page(listed, cursor)
        last = [each for each in listed if each["sessionId"] == cursor]
        return {**page, "sessions": last + page["sessions"]}


class FilterLostOnPageTwo(Clean):
    """Heeds the working directory on the first page only."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return super().listed(cwd if cursor is None else None, cursor)


class CursorForEver(Clean):
    """Gives the same cursor on the last page."""

    def page(self, listed: list[Json], cursor: Json) -> dict[str, Json]:
        page = super().page(listed, cursor)
        return {"nextCursor": cursor or listed[-1]["sessionId"], **page} if len(listed) > PAGE else page


class PagesWithoutEnd(Clean):
    """Has a further page, with a cursor of its own, behind every page."""

    def page(self, listed: list[Json], cursor: Json) -> dict[str, Json]:
        return {**super().page(listed, cursor), "nextCursor": f"more-{self.last_id}"}

    async def list_sessions(self, request: Request) -> Json:
        self.last_id += 1
        if str(request.params.get("cursor")).startswith("more-"):
            request.params["cursor"] = None
        return await super().list_sessions(request)


class NullCursorRefused(Clean):
    """Refuses a cursor that is null."""

    async def list_sessions(self, request: Request) -> Json:
        if request.params.get("cursor", "") is None:
            raise RpcError(INVALID_PARAMS, "cursor must be a string")
        return await super().list_sessions(request)


class DateAsNumber(Clean):
    """Says when a session was active as a date of its own fashion."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return [{**each, "updatedAt": "1767322800.5 seconds"} for each in super().listed(cwd, cursor)]


class ReplaysByKind(Clean):
    """Replays what the user said, then what the agent said."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in sorted(session.history, key=lambda update: update["sessionUpdate"] != "user_message_chunk"):
            self.update(session, update)
        return self.state(session)


class ReplaysNoTools(Clean):
    """Replays the messages of a session and not its tool calls."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in session.history:
            if not update["sessionUpdate"].startswith("tool_call"):
                self.update(session, update)
        return self.state(session)


class ReplaysLastTurn(Clean):
    """Replays the last turn of a session only."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        starts = [n for n, update in enumerate(session.history) if update["sessionUpdate"] == "user_message_chunk"]
        for update in session.history[starts[-1] if starts else 0 :]:
            self.update(session, update)
        return self.state(session)


class OnlyTheChangedOption(Clean):
    """Answers the setting of an option with that option alone."""

    async def set_config_option(self, request: Request) -> Json:
        result = await super().set_config_option(request)
        return {"configOptions": [each for each in result["configOptions"] if each["id"] == "pace"]}
