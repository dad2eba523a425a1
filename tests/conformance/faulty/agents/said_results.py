"""Faults of single results: initialization, sessions, modes, options and lists."""

from __future__ import annotations

from outgoing import Outgoing
from rpc import Json


class NumberedSession(Outgoing):
    """Numbers its sessions."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["sessionId"] = 7


class IdForSessionId(Outgoing):
    """Calls the id of a session id."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["id"] = result.pop("sessionId")


class CamelStop(Outgoing):
    """Says endTurn."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/prompt":
            result["stopReason"] = "endTurn"


class OneL(Outgoing):
    """Spells cancelled with one l."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if result.get("stopReason") == "cancelled":
            result["stopReason"] = "canceled"


class ReasonForStopReason(Outgoing):
    """Calls the stop reason reason."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/prompt":
            result["reason"] = result.pop("stopReason")


class NullPrompt(Outgoing):
    """Answers prompts with null."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/prompt":
            message["result"] = None


class TextPrompt(Outgoing):
    """Answers prompts with the stop reason alone."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/prompt":
            message["result"] = result["stopReason"]


class InfoWithoutVersion(Outgoing):
    """Says its name without a version."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            del result["agentInfo"]["version"]


class InfoAsText(Outgoing):
    """Says its name as text."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            result["agentInfo"] = "clean 1"


class WayWithoutId(Outgoing):
    """Offers a way to log in that has no id."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            del result["authMethods"][0]["id"]


class TrueForList(Outgoing):
    """Announces a capability by true where an object goes."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            result["agentCapabilities"]["sessionCapabilities"]["list"] = True


class CapabilitiesAsList(Outgoing):
    """Lists its capabilities by name."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            result["agentCapabilities"] = ["loadSession"]


class OwnCapability(Outgoing):
    """Announces a capability of its own beside those of the protocol."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            result["agentCapabilities"]["undo"] = True


class TerminalLogin(Outgoing):
    """Offers a login in a terminal to everyone."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "initialize":
            result["authMethods"].append({"id": "t", "name": "T", "type": "terminal"})


class BooleanOption(Outgoing):
    """Shows a boolean option to everyone."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["configOptions"].append({"id": "b", "name": "B", "type": "boolean", "currentValue": True})


class UnlistedValue(Outgoing):
    """Has an option whose value is none of its values."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["configOptions"][0]["currentValue"] = "wild"


class OptionWithoutValue(Outgoing):
    """Has an option without a value."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            del result["configOptions"][0]["currentValue"]


class OptionsByName(Outgoing):
    """Sends its options as an object."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["configOptions"] = {"pace": "fast"}


class ModesAsWords(Outgoing):
    """Lists its modes as words."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            result["modes"]["availableModes"] = ["ask", "code"]


class NoCurrentMode(Outgoing):
    """Does not say which mode a session is in."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/new":
            del result["modes"]["currentModeId"]


class StaleOptions(Outgoing):
    """Answers the setting of an option with the values from before."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/set_config_option":
            result["configOptions"][0]["currentValue"] = "fast"


class NothingUponAnOption(Outgoing):
    """Answers the setting of an option with nothing."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/set_config_option":
            result.clear()


class NumberedCursor(Outgoing):
    """Has cursors that are numbers."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if "nextCursor" in result:
            result["nextCursor"] = 5


class TitleAsNumber(Outgoing):
    """Lists sessions with numbers for titles."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/list":
            for each in result["sessions"]:
                each["title"] = 1


class ListWithoutFolders(Outgoing):
    """Lists sessions without their folders."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/list":
            for each in result["sessions"]:
                del each["cwd"]


class RelativeFolders(Outgoing):
    """Lists sessions with folders as it sees them."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/list":
            for each in result["sessions"]:
                each["cwd"] = "." + each["cwd"]


class BareList(Outgoing):
    """Answers a list of sessions with the list alone."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/list":
            message["result"] = result["sessions"]


class NoEmptyList(Outgoing):
    """Answers with nothing where no session matches."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        if method == "session/list" and not result["sessions"]:
            del result["sessions"]


class MethodInTheAnswer(Outgoing):
    """Repeats the method in its answers."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        message["method"] = method


class ErrorBesideResult(Outgoing):
    """Has an error that is null beside each result."""

    def result_said(self, method: str, result: Json, message: Json) -> None:
        message["error"] = None
