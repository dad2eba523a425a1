"""Listing, deleting, loading and resuming sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.cases.sessions import end
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Pending
from acp_conformance.core.case import CHOICE, MUST, SHOULD, belongs_to, choice, fail, not_applicable, skip

ACP = "ACP v1"
LOADING = "Session Setup, Loading Sessions"
RESUMING = "Session Setup, Resuming Sessions"
LIST = "Session List"
DELETE = "Session Delete, Semantics"

NONE = "conformance-no-such-session"


async def capable(agent: Agent, *capabilities: str) -> None:
    await agent.initialize()
    for capability in capabilities:
        if not agent.can(capability):
            not_applicable(f"{capability} is not announced")


async def reopen(agent: Agent, method: str, session: str, **params: object) -> Pending:
    return await agent.request(method, {"sessionId": session, "cwd": str(agent.cwd), "mcpServers": [], **params})


async def _list(agent: Agent, **params: object) -> list[Mapping[str, Any]]:
    """Return the sessions of all pages of session/list."""
    found: list[Mapping[str, Any]] = []
    asked = params
    for _ in range(20):
        result = await (await agent.request("session/list", asked)).result()
        found += [each for each in result.get("sessions") or () if isinstance(each, dict)]
        if result.get("nextCursor") is None:
            break
        asked = {**params, "cursor": result["nextCursor"]}
    else:
        skip("there are more than twenty pages of sessions")
    return found


@case("sessions/list-empty", level=MUST, source=ACP, section=f"{LIST}, Listing Sessions", shared=True)
async def list_empty(agent: Agent) -> None:
    """If no session matches, the list is empty."""
    await capable(agent, "sessionCapabilities.list")
    result = await (await agent.request("session/list", {"cwd": f"{agent.cwd}/never"})).result()
    if not isinstance(result, dict) or result.get("sessions") != []:
        fail(f"the result is {result!r:.300}")


@case("sessions/list-by-cwd", level=MUST, source=ACP, section=f"{LIST}, Listing Sessions", shared=True)
async def list_by_cwd(agent: Agent) -> None:
    """Only sessions of the requested working directory are listed."""
    await capable(agent, "sessionCapabilities.list")
    await agent.session()
    (agent.cwd / "other").mkdir()
    await agent.session(cwd=str(agent.cwd / "other"))
    strangers = {each.get("cwd") for each in await _list(agent, cwd=str(agent.cwd))} - {str(agent.cwd)}
    if strangers:
        fail(f"requested {agent.cwd}, it lists sessions of {strangers}")


@case("sessions/list-cwd", level=MUST, source=ACP, section="Session Setup, Working Directory", needs="quick")
async def list_cwd(agent: Agent) -> None:
    """A session is listed with the working directory that it was created in."""
    await capable(agent, "sessionCapabilities.list")
    session = await agent.session()
    await (await agent.prompt(session, "quick")).result()
    listed = [each.get("cwd") for each in await _list(agent) if each.get("sessionId") == session]
    if not listed:
        not_applicable("the session is not listed")
    if not _is_same(str(listed[0]), str(agent.cwd)):
        fail(f"the session of {agent.cwd} is listed with the directory {listed[0]!r:.200}")


def _is_same(folder: str, other: str) -> bool:
    # The directory may be reached by a symbolic link.
    return os.path.realpath(folder) == os.path.realpath(other)


@case("sessions/list-shows-new", level=CHOICE, source=ACP, section=f"{LIST}, Listing Sessions", shared=True)
async def list_shows_new(agent: Agent) -> None:
    """The specification leaves open whether a session is listed before it has content."""
    await capable(agent, "sessionCapabilities.list")
    session = await agent.session()
    listed = {each.get("sessionId") for each in await _list(agent, cwd=str(agent.cwd))}
    choice("listed at once" if session in listed else "not listed before its first prompt")


@case("sessions/list-bad-cursor", level=SHOULD, source=ACP, section=f"{LIST}, Pagination", shared=True)
async def list_bad_cursor(agent: Agent) -> None:
    """A cursor that the agent never sent is refused."""
    await capable(agent, "sessionCapabilities.list")
    await (await agent.request("session/list", {"cursor": "conformance-no-such-cursor"})).error()


@case("sessions/deleted-not-listed", level=MUST, source=ACP, section=DELETE, needs="quick", shared=True)
async def deleted_not_listed(agent: Agent) -> None:
    """A deleted session is no longer listed."""
    await capable(agent, "sessionCapabilities.list", "sessionCapabilities.delete")
    session = await agent.session()
    await (await agent.prompt(session, "quick")).answer()
    await agent.session()
    await (await agent.request("session/delete", {"sessionId": session})).result()
    if session in {each.get("sessionId") for each in await _list(agent, cwd=str(agent.cwd))}:
        fail("it is still listed")


@case("sessions/delete-unknown", level=SHOULD, source=ACP, section=DELETE, shared=True)
async def delete_unknown(agent: Agent) -> None:
    """Deleting a session that never existed succeeds silently."""
    await capable(agent, "sessionCapabilities.delete")
    await (await agent.request("session/delete", {"sessionId": NONE})).result()


@case("sessions/delete-twice", level=SHOULD, source=ACP, section=DELETE, shared=True)
async def delete_twice(agent: Agent) -> None:
    """Deleting a session that is already deleted succeeds silently."""
    await capable(agent, "sessionCapabilities.delete")
    session = await agent.session()
    await (await agent.request("session/delete", {"sessionId": session})).result()
    await (await agent.request("session/delete", {"sessionId": session})).result()


# Loading and resuming.


async def _with_history(agent: Agent) -> tuple[str, str, str]:
    """Return the id of a session with one ended turn, the user's text, and the agent's text."""
    session = await agent.session()
    situation = "stream" if "stream" in agent.profile.situations else "quick"
    prompt = await agent.prompt(session, situation)
    await prompt.result()
    said = "".join(each.text for each in agent.updates(session) if each.kind == "agent_message_chunk")
    if agent.can("sessionCapabilities.close"):
        await end(agent, session)
    return session, agent.text_of(situation), said


async def _loaded(agent: Agent) -> tuple[Pending, int, str, str, str]:
    await capable(agent, "loadSession")
    session, asked, said = await _with_history(agent)
    since = len(agent.received)
    loading = await reopen(agent, "session/load", session)
    with belongs_to("sessions/load-replays-user"):
        await loading.result()
    return loading, since, session, asked, said


@case("sessions/load-replays-user", level=MUST, source=ACP, section=LOADING, needs="quick", shared=True)
async def load_replays_user(agent: Agent) -> None:
    """Loading a session replays the user's messages."""
    _, since, session, asked, _ = await _loaded(agent)
    replayed = "".join(each.text for each in agent.updates(session, since=since) if each.kind == "user_message_chunk")
    if asked not in replayed:
        fail(f"the user said {asked!r}, the replay has {replayed!r:.200}")


@case("sessions/load-replays-agent", level=MUST, source=ACP, section=LOADING, needs="quick", shared=True)
async def load_replays_agent(agent: Agent) -> None:
    """Loading a session replays the agent's messages."""
    _, since, session, _, said = await _loaded(agent)
    if not said:
        not_applicable("the turn sent no text")
    replayed = "".join(each.text for each in agent.updates(session, since=since) if each.kind == "agent_message_chunk")
    if replayed != said:
        fail(f"the agent said {said!r:.200}, the replay has {replayed!r:.200}")


@case("sessions/load-replays-first", level=MUST, source=ACP, section=LOADING, needs="quick")
async def load_replays_first(agent: Agent) -> None:
    """The response to session/load comes after the whole replay."""
    loading, _, session, _, _ = await _loaded(agent)
    await agent.fence()
    await agent.settle()
    assert loading.position is not None
    late = [each for each in agent.updates(session, since=loading.position) if each.kind.endswith("_message_chunk")]
    if late:
        fail(f"{len(late)} message chunks come after the answer")


@case("sessions/loaded-goes-on", level=MUST, source=ACP, section=LOADING, needs="quick", shared=True)
async def loaded_goes_on(agent: Agent) -> None:
    """A loaded session accepts prompts."""
    _, _, session, _, _ = await _loaded(agent)
    await (await agent.prompt(session, "quick")).result()


@case("sessions/load-unknown", level=SHOULD, source=ACP, section=LOADING, shared=True)
async def load_unknown(agent: Agent) -> None:
    """Loading a session that does not exist is answered with an error."""
    await capable(agent, "loadSession")
    await (await reopen(agent, "session/load", NONE)).error()


@case(
    "sessions/resume-replays-nothing",
    level=MUST,
    source=ACP,
    section=RESUMING,
    needs="quick",
    after="gating/has-resume",
)
async def resume_replays_nothing(agent: Agent) -> None:
    """Resuming a session does not replay the conversation."""
    await capable(agent, "sessionCapabilities.resume")
    session, _, _ = await _with_history(agent)
    since = len(agent.received)
    await (await reopen(agent, "session/resume", session)).result()
    await agent.fence()
    await agent.settle()
    replayed = [each for each in agent.updates(session, since=since) if each.kind.endswith("_message_chunk")]
    if replayed:
        fail(
            f"{len(replayed)} message chunks are replayed, the first is {replayed[0].text!r:.100}",
            at=replayed[0].position,
        )


@case(
    "sessions/resumed-goes-on",
    level=MUST,
    source=ACP,
    section=RESUMING,
    needs="quick",
    shared=True,
    after="gating/has-resume",
)
async def resumed_goes_on(agent: Agent) -> None:
    """A resumed session accepts prompts."""
    await capable(agent, "sessionCapabilities.resume")
    session, _, _ = await _with_history(agent)
    await (await reopen(agent, "session/resume", session)).result()
    await (await agent.prompt(session, "quick")).result()


@case("sessions/resume-unknown", level=SHOULD, source=ACP, section=RESUMING, shared=True)
async def resume_unknown(agent: Agent) -> None:
    """Resuming a session that does not exist is answered with an error."""
    await capable(agent, "sessionCapabilities.resume")
    await (await reopen(agent, "session/resume", NONE)).error()
