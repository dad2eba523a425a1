"""How a client answers permission requests, also when their turn is cancelled."""

from typing import Any, NoReturn

from acp_conformance.client.conversation import Ask, Message
from acp_conformance.client.registry import case
from acp_conformance.client.subject import Answer, Client, brief
from acp_conformance.core.case import MUST, choice, fail, not_applicable

_ACP = "ACP v1"
_REQUESTING = "Tool Calls, Requesting Permission"
_CANCELLATION = "Prompt Turn, Cancellation"
_KINDS = {"allow_once": "Allow once", "allow_always": "Always allow", "reject_once": "Reject", "reject_always": "Never"}


def _options(prefix: str, *kinds: str) -> list[dict[str, str]]:
    return [{"optionId": f"{prefix}/ö {kind}", "name": _KINDS[kind], "kind": kind} for kind in kinds]


async def _ask(client: Client, options: list[dict[str, str]], call: str = "call-1") -> Ask:
    await client.update(client.dialect.call(call, kind="execute"))
    return await client.ask("session/request_permission", client.dialect.question(call, options))


async def _decided(client: Client, situation: str, kind: str, *kinds: str) -> tuple[dict[str, Any], str | None]:
    """Request permission, let the user choose the option of `kind`, and return the outcome and the kind of the chosen
    option."""
    await client.prompt()
    options = _options("opt", *kinds)
    ask = await _ask(client, options)
    wanted = next(option for option in options if option["kind"] == kind)
    number = options.index(wanted) + 1
    # A user answers a visible question: the client has read the request by then.
    await client.alive()
    await client.user(situation, number=number, option=wanted["optionId"], name=wanted["name"])
    outcome = _outcome(await client.answer(ask))
    found = [option["kind"] for option in options if option["optionId"] == outcome.get("optionId")]
    return outcome, found[0] if found else None


def _outcome(answer: Answer) -> dict[str, Any]:
    result = answer.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict):
        fail(f"a permission request was answered with {brief(answer)}")
    return outcome


async def _cancelled(client: Client, cancel: Message, ask: Ask) -> None:
    """Check that a request that is pending at session/cancel is answered correctly."""
    answer = await client.answer(ask)
    if ask.place < cancel.place:
        _by_itself()
    if _outcome(answer).get("outcome") != "cancelled":
        fail(f"a permission request that was pending at session/cancel was answered with {brief(answer)}")


async def left_open(client: Client, *asks: Ask) -> None:
    """Check that the client has read the requests and waits for its user."""
    await client.alive()
    if any(ask.answers for ask in asks):
        _by_itself()


def _by_itself() -> NoReturn:
    not_applicable("the client answers permission requests by itself, before its user can cancel the turn")


@case("permission/offered-option", level=MUST, source=_ACP, section=_REQUESTING, needs="approve")
async def offered_option(client: Client) -> None:
    """The response to a permission request names an option that was offered."""
    outcome, kind = await _decided(client, "approve", "allow_once", "reject_once", "allow_once")
    if outcome.get("outcome") == "selected" and kind is None:
        fail(f"optionId is {outcome.get('optionId')!r}, which was not offered")
    if outcome.get("outcome") != "selected":
        fail(f"the outcome of an approval is {brief(outcome)}")


@case("permission/approval-allows", level=MUST, source=_ACP, section="Tool Calls, Permission Options", needs="approve")
async def approval_allows(client: Client) -> None:
    """The response to the user's approval names an option that allows, at any place in the list."""
    outcome, kind = await _decided(client, "approve", "allow_once", "reject_always", "reject_once", "allow_once")
    if kind is None or not kind.startswith("allow"):
        fail(f"the answer to an approval is {brief(outcome)}")


@case("permission/rejection-rejects", level=MUST, source=_ACP, section="Tool Calls, Permission Options", needs="reject")
async def rejection_rejects(client: Client) -> None:
    """The response to the user's rejection does not name an option that allows."""
    outcome, kind = await _decided(client, "reject", "reject_once", "allow_once", "allow_always", "reject_once")
    if outcome.get("outcome") == "cancelled":
        choice("dismisses the request (cancelled) although the turn goes on")
    if kind is None or not kind.startswith("reject"):
        fail(f"the answer to a rejection is {brief(outcome)}")


@case("permission/each-its-own", level=MUST, source=_ACP, section=_REQUESTING, needs="approve")
async def each_its_own(client: Client) -> None:
    """The responses to two concurrent permission requests name options of their own requests."""
    await client.prompt()
    offers = [_options(prefix, "reject_once", "allow_once") for prefix in ("first", "second")]
    asks = [await _ask(client, options, f"call-{number}") for number, options in enumerate(offers, 1)]
    for answered, options in enumerate(offers):
        # It has read both before its user decides, and may show the second only after the decision about the first.
        await client.conversation.until(
            lambda wanted=answered: sum(bool(ask.answers) for ask in asks) >= wanted or None, "the first decision"
        )
        await client.alive()
        await client.user("approve", number=2, option=options[1]["optionId"], name=options[1]["name"])
    for ask, options in zip(asks, offers, strict=True):
        outcome = _outcome(await client.answer(ask))
        if outcome.get("optionId") not in [option["optionId"] for option in options]:
            fail(f"of the options {[option['optionId'] for option in options]} was chosen {brief(outcome)}")


@case("permission/cancelled", level=MUST, source=_ACP, section=_CANCELLATION, needs="cancel")
async def cancelled(client: Client) -> None:
    """A permission request that is pending at session/cancel is answered with the outcome cancelled."""
    await client.prompt()
    ask = await _ask(client, _options("opt", "allow_once", "reject_once"))
    await left_open(client, ask)
    await _cancelled(client, await client.cancelled(), ask)


@case("permission/all-cancelled", level=MUST, source=_ACP, section=_CANCELLATION, needs="cancel")
async def all_cancelled(client: Client) -> None:
    """Every permission request that is pending at session/cancel is answered with the outcome cancelled."""
    await client.prompt()
    asks = [await _ask(client, _options(f"{n}", "allow_once", "reject_once"), f"call-{n}") for n in range(3)]
    await left_open(client, *asks)
    cancel = await client.cancelled()
    for ask in asks:
        await _cancelled(client, cancel, ask)


@case("permission/cancelled-once", level=MUST, source="JSON-RPC 2.0", section="Response object", needs="cancel")
async def cancelled_once(client: Client) -> None:
    """A permission request of a cancelled turn is answered once, even if the agent also withdraws it."""
    await client.prompt()
    ask = await _ask(client, _options("opt", "allow_once", "reject_once"))
    await left_open(client, ask)
    await client.cancelled()
    await client.conversation.notify("$/cancel_request", {"requestId": ask.id})
    await client.answer(ask)
    await client.alive()
    if len(ask.answers) > 1:
        fail(f"one permission request got {len(ask.answers)} answers: {brief(ask.answers)}")


@case(
    "permission/dialog-closed",
    level=MUST,
    source="JSON-RPC 2.0",
    section="Response object",
    needs=["cancel", "approve"],
)
async def dialog_closed(client: Client) -> None:
    """A user's later decision about a permission request of a cancelled turn is not sent."""
    await client.prompt()
    options = _options("opt", "allow_once", "reject_once")
    ask = await _ask(client, options)
    await left_open(client, ask)
    await client.cancelled()
    await client.answer(ask)
    await client.user("approve", number=1, option=options[0]["optionId"], name=options[0]["name"])
    await client.alive()
    if len(ask.answers) > 1:
        fail(f"one permission request got {len(ask.answers)} answers: {brief(ask.answers)}")


@case("permission/late", level=MUST, source=_ACP, section=_REQUESTING, needs="cancel")
async def late(client: Client) -> None:
    """A permission request that was sent before session/cancel arrived is answered with the outcome cancelled."""
    await client.prompt()
    await client.alive()
    cancel = await client.cancelled()
    ask = await _ask(client, _options("opt", "allow_once", "reject_once"))
    await _cancelled(client, cancel, ask)
