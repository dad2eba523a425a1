"""Faults in the meaning of messages whose shape is right."""

from __future__ import annotations

import base64
from typing import Any

from tests.conformance.v2.clean import CAN_CANCEL, Clean
from tests.conformance.v2.connection import Session

DATA = base64.b64encode(b"begun").decode()


def _diff(path: str, patch: str) -> dict[str, Any]:
    changes = [{"operation": "modify", "path": path}]
    return {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}


def _patch(old: str, new: str) -> str:
    return f"diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1 +1 @@\n--- a\n++++ b\n"


class _Shows(Clean):
    """Has this content in its tool call."""

    def content(self, cwd: str) -> dict[str, Any]:
        raise NotImplementedError

    def do_tool(self, session: Session) -> None:
        self.begin_call(session, content=[self.content(session.cwd)])
        self.end_call(session, "completed")
        self.finish(session)


class NamesPathsFromItsFolder(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        return {"type": "diff", "changes": [{"operation": "modify", "path": "a.txt"}]}


class RunsInARelativeFolder(Clean):
    def do_shell(self, session: Session) -> None:
        session.cwd = "work"
        super().do_shell(session)


class PrefixesItsPatch(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        return _diff(f"{cwd}/a.txt", _patch(f"a{cwd}/a.txt", f"b{cwd}/a.txt"))


class PrefixesWithASlash(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        return _diff(f"{cwd}/a.txt", _patch(f"a/{cwd}/a.txt", f"b/{cwd}/a.txt"))


class PatchesFromItsFolder(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        return _diff(f"{cwd}/a.txt", _patch("a.txt", "a.txt"))


class PatchesAnotherFile(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        return _diff(f"{cwd}/a.txt", _patch(f"{cwd}/b.txt", f"{cwd}/b.txt"))


class MailsItsPatch(_Shows):
    def content(self, cwd: str) -> dict[str, Any]:
        path = f"{cwd}/a.txt"
        return _diff(path, "From: A <a@b.org>\nSubject: [PATCH] x\n\n" + _patch(path, path))


class DatesWithoutAZone(Clean):
    def listed(self, session: Session) -> Any:
        return {**super().listed(session), "updatedAt": "2026-11-02T10:00:00"}


class WritesItsOutputPlainly(Clean):
    def do_quick(self, session: Session) -> None:
        self.tell(session, "terminal_update", terminalId="t", command="make", cwd=session.cwd)
        self.tell(session, "terminal_output_chunk", terminalId="t", data="make: nothing to be done")
        super().do_quick(session)


class SendsItsImageAsAnAddress(Clean):
    def do_quick(self, session: Session) -> None:
        image = {"type": "image", "mimeType": "image/png", "data": "https://a.b/c.png"}
        self.tell(session, "agent_message", messageId=self.new_id("a"), content=[image])
        super().do_quick(session)


class SpeaksForAStranger(Clean):
    def do_quick(self, session: Session) -> None:
        self.say(Session("another", session.cwd), "Done.")
        super().do_quick(session)


class AddsAMember(Clean):
    def say(self, session: Session, *words: str) -> None:
        for word in words:
            content = {"type": "text", "text": word, "colour": "red"}
            self.tell(session, "agent_message_chunk", messageId=self.new_id("a"), content=content)


class AddsACapability(Clean):
    def hello(self) -> Any:
        return {**super().hello(), "agentCapabilities": {"loadSession": True}}


class NamesItsOwnKind(Clean):
    def begin_call(self, session: Session, **members: Any) -> str:
        return super().begin_call(session, kind="shell", **members)


class NamesItsOwnReason(Clean):
    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        super().finish(session, "done" if reason == "end_turn" else reason, **members)


class NamesItsOwnUpdate(Clean):
    def do_quick(self, session: Session) -> None:
        self.tell(session, "mood_update", mood="good")
        super().do_quick(session)


class HasAnUnlistedValue(Clean):
    def options(self, session: Session) -> Any:
        return [{**each, "currentValue": "pedestrian"} for each in super().options(session)]


class HasAValueInTwoGroups(Clean):
    def options(self, session: Session) -> Any:
        values = [{"value": each, "name": each} for each in ("fast", "slow")]
        groups = [{"groupId": each, "name": each, "options": values} for each in ("a", "b")]
        return [{**each, "options": groups} for each in super().options(session)]


class _Commands(Clean):
    names: tuple[str, ...] = ()

    def do_quick(self, session: Session) -> None:
        commands = [{"type": "command", "name": name, "description": name} for name in self.names]
        self.tell(session, "available_commands_update", availableCommands=commands)
        super().do_quick(session)


class HasACommandTwice(_Commands):
    names = ("plan", "plan")


class HasACommandOfTwoWords(_Commands):
    names = ("make plan",)


class _Background(Clean):
    """Works in the background, and says so with every state of the turn `quick`."""

    work: tuple[str, ...] = ()
    """The terminals that run when the turn begins."""

    def do_quick(self, session: Session) -> None:
        for id in self.work:
            self.tell(session, "terminal_update", terminalId=id, command="serve", cwd=session.cwd)
        self.running(session, *self.work)
        for id in self.work:
            self.tell(session, "terminal_update", terminalId=id, exitStatus={"exitCode": 0})
        self.finish(session)

    def running(self, session: Session, *ids: str) -> None:
        self.state(session, "running", background=[{"type": "terminal", "terminalId": id} for id in ids])

    def state(self, session: Session, state: str, **members: Any) -> None:
        super().state(session, state, **({"background": []} | members))


class WorksInTheBackground(_Background):
    """No fault."""

    work = ("server", "watcher")


class ListsWhatItNeverAnnounced(_Background):
    def do_quick(self, session: Session) -> None:
        self.running(session, "server")
        super().do_quick(session)


class DropsWhatStillRuns(_Background):
    work = ("server",)

    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        if "exitStatus" not in members:
            super().tell(session, kind, **members)


class ListsAServerTwice(_Background):
    work = ("server",)

    def running(self, session: Session, *ids: str) -> None:
        super().running(session, *ids, *ids)


class ListsTheCallToo(_Background):
    work = ("server",)

    def running(self, session: Session, *ids: str) -> None:
        call = self.begin_call(session, content=[{"type": "terminal", "terminalId": "server"}])
        items = [{"type": "terminal", "terminalId": "server"}, {"type": "tool_call", "toolCallId": call}]
        self.state(session, "running", background=items)
        self.end_call(session, "completed")


class ForgetsItsBackground(_Background):
    work = ("server",)

    def idle(self, session: Session, **members: Any) -> None:
        super().idle(session, background=None, **members)


class OffersToCancelWhatHasEnded(Clean):
    def begin_call(self, session: Session, **members: Any) -> str:
        return super().begin_call(session, **{"capabilities": CAN_CANCEL, **members})


class HasOneTerminal(Clean):
    """Its terminal runs one command after the other."""

    about: Any = CAN_CANCEL

    def do_quick(self, session: Session) -> None:
        for command in ("make", "make test"):
            about = {"command": command, "cwd": session.cwd, "capabilities": self.about}
            self.tell(session, "terminal_update", terminalId="only", **about)
            self.tell(session, "terminal_output_chunk", terminalId="only", data=DATA)
            self.tell(session, "terminal_update", terminalId="only", exitStatus={"exitCode": 0}, capabilities=None)
        super().do_quick(session)


class HasOneTerminalThatStays(HasOneTerminal):
    about = None


class ShowsItsTerminalAgain(Clean):
    """No fault: a terminal that has ended is reported once more."""

    def do_quick(self, session: Session) -> None:
        for _ in range(2):
            self.tell(session, "terminal_update", terminalId="only", command="make", cwd=session.cwd)
            self.tell(session, "terminal_update", terminalId="only", exitStatus={"exitCode": 0})
        super().do_quick(session)


class OffersALoginInATerminal(Clean):
    def hello(self) -> Any:
        login = {"type": "terminal", "methodId": "tui", "name": "Terminal"}
        return {**super().hello(), "authMethods": [login]}


class ShowsAPatch(_Shows):
    """No fault."""

    def content(self, cwd: str) -> dict[str, Any]:
        return _diff(f"{cwd}/a.txt", _patch(f"{cwd}/a.txt", f"{cwd}/a.txt") + "\\ No newline at end of file\n")


CAUGHT_BY = {
    "v2-schema/paths": NamesPathsFromItsFolder,
    "v2-schema/dates": DatesWithoutAZone,
    "v2-schema/base64": WritesItsOutputPlainly,
    "v2-schema/sessions": SpeaksForAStranger,
    "v2-schema/custom-members": AddsAMember,
    "v2-schema/custom-names": NamesItsOwnKind,
    "v2-options/values": HasAnUnlistedValue,
    "v2-updates/commands": HasACommandTwice,
    "v2-updates/background": ListsWhatItNeverAnnounced,
    "v2-updates/offers-end": OffersToCancelWhatHasEnded,
    "v2-updates/terminal-ids": HasOneTerminal,
    "v2-updates/patches": PrefixesItsPatch,
}

ALSO_CAUGHT = {
    "v2-schema/paths": (RunsInARelativeFolder,),
    "v2-schema/base64": (SendsItsImageAsAnAddress,),
    "v2-schema/custom-members": (AddsACapability,),
    "v2-schema/custom-names": (NamesItsOwnReason, NamesItsOwnUpdate),
    "v2-options/values": (HasAValueInTwoGroups,),
    "v2-updates/commands": (HasACommandOfTwoWords,),
    "v2-updates/background": (DropsWhatStillRuns, ListsAServerTwice, ListsTheCallToo, ForgetsItsBackground),
    "v2-updates/terminal-ids": (HasOneTerminalThatStays,),
    "v2-updates/patches": (PrefixesWithASlash, PatchesFromItsFolder, PatchesAnotherFile, MailsItsPatch),
    "v2-gating/announced": (OffersALoginInATerminal,),
}
"""More of them, by the case that accuses them."""

ALLOWED = (WorksInTheBackground, ShowsItsTerminalAgain, ShowsAPatch)
"""Agents without a fault."""
