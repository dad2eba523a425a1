"""What the user can set in one session: its mode and config options (ACP, Session Modes and Session Config Options).

The values are in the session's record, so that they outlive the connection. Nothing is sent or stored from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from acp_server.schema.config_options import SessionConfigBoolean, SessionConfigSelect, SessionMode
    from acp_server.session.negotiation import ClientProfile
    from acp_server.store.records import SessionRecord

Option: TypeAlias = "SessionConfigSelect | SessionConfigBoolean"

AUTO_APPROVE: Final = "auto_approve"
"""The option that lets tools which allow it run without asking."""

_OFF_AND_ON: Final = ("off", "on")


class Settings:
    """The modes and options that a session offers, and which of them are chosen."""

    def __init__(
        self,
        record: SessionRecord,
        profile: ClientProfile,
        modes: Iterable[SessionMode],
        options: Iterable[Option],
        *,
        auto_approve: bool = False,
    ) -> None:
        self._record = record
        self._profile = profile
        self.modes = list(modes)
        """The first is where a session starts."""
        self.options = [*options, *((_auto_approve(),) if auto_approve else ())]
        """With their defaults; see `value`."""

    @property
    def mode(self) -> str | None:
        """The id of the current mode; None if there are no modes."""
        if self.has_mode(self._record.mode):
            return self._record.mode
        # None was chosen yet, or it is not offered any more.
        return self.modes[0].id if self.modes else None

    def has_mode(self, mode_id: str | None) -> bool:
        """Whether the mode is offered."""
        return any(mode.id == mode_id for mode in self.modes)

    def set_mode(self, mode_id: str) -> Callable[[], None]:
        """Change the mode. Raises ValueError if it is not offered. Returns what undoes it."""
        if not self.has_mode(mode_id):
            raise ValueError(f"{mode_id!r} is not one of this session's modes")
        record = self._record
        before, record.mode = record.mode, mode_id
        record.chosen.add(("mode",))

        def undo() -> None:
            # Unless it has been changed since.
            if record.mode == mode_id:
                record.mode = before

        return undo

    def value(self, config_id: str) -> str | bool | None:
        """The current value of an option; None if there is no such option."""
        return next((self._value(option) for option in self.options if option.id == config_id), None)

    def choose(self, config_id: str, value: str | bool) -> Callable[[], None]:
        """Change an option. Raises ValueError if it, or the value, is not offered. Returns what undoes it."""
        option = next((option for option in self.options if option.id == config_id), None)
        if option is None:
            raise ValueError(f"{config_id!r} is not one of this session's options")
        if value not in choices(option):
            raise ValueError(f"{value!r} is not one of the values of {config_id!r}")
        config = self._record.config
        self._record.chosen.add(("config", config_id))
        before, config[config_id] = config.get(config_id), value

        def undo() -> None:
            if config.get(config_id) == value:
                del config[config_id]
                if before is not None:
                    config[config_id] = before

        return undo

    def shown(self) -> list[Option]:
        """The options as this client can show them, with their current values."""
        if not self.options:
            # What the client can show need not be read, for which the types of `initialize` would be loaded.
            return []
        session = self._profile.capabilities.session
        kinds = session.config_options if session is not None else None
        booleans = kinds is not None and kinds.boolean is not None
        return [
            option.model_copy(update={"current_value": self._value(option)})
            for option in self.options
            if booleans or option.type != "boolean"
        ] + ([self._auto_approve_as_select()] if not booleans and self.value(AUTO_APPROVE) is not None else [])

    def taken(self, config_id: str, value: str | bool) -> str | bool:
        """What a value that the client chose, among those it was shown, means here."""
        return value == "on" if config_id == AUTO_APPROVE and value in _OFF_AND_ON else value

    def state(self) -> dict[str, Any]:
        """The part of an answer to session/new, load or resume that tells the client of them."""
        state: dict[str, Any] = {}
        if (mode := self.mode) is not None:
            from acp_server.schema.config_options import SessionModeState

            state["modes"] = SessionModeState(current_mode_id=mode, available_modes=self.modes)
        if options := self.shown():
            state["config_options"] = options
        return state

    def _auto_approve_as_select(self) -> Option:
        from acp_server.schema.config_options import SessionConfigSelect, SessionConfigSelectOption

        option = _auto_approve()
        choices = [
            SessionConfigSelectOption(value="off", name="Ask"),
            SessionConfigSelectOption(value="on", name="Run without asking"),
        ]
        return SessionConfigSelect(
            id=option.id,
            name=option.name,
            description=option.description,
            current_value=_OFF_AND_ON[bool(self.value(AUTO_APPROVE))],
            options=choices,
        )

    def _value(self, option: Option) -> str | bool:
        value = self._record.config.get(option.id)
        return value if value is not None and value in choices(option) else option.current_value


def _auto_approve() -> SessionConfigBoolean:
    from acp_server.schema.config_options import SessionConfigBoolean

    return SessionConfigBoolean(
        id=AUTO_APPROVE,
        name="Approve tools automatically",
        description="Run tools that allow it without asking first.",
        current_value=False,
    )


def choices(option: Option) -> Sequence[str | bool]:
    """The values that an option can have."""
    if option.type == "boolean":
        return (True, False)
    values: list[str] = []
    for choice in cast("list[Any]", option.options):
        values += [inner.value for inner in choice.options] if hasattr(choice, "options") else [choice.value]
    return values
