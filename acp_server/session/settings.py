"""What the user can set in one session: its mode and config options (ACP, Session Modes and Session Config Options).

The values are in the session's record, so that they outlive the connection. How the client sets them is in
`acp_server.session.choosing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.schema.config_options import SessionConfigBoolean, SessionConfigSelect, SessionMode
    from acp_server.schema.updates import SessionUpdate
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile
    from acp_server.store.records import SessionRecord

Option: TypeAlias = "SessionConfigSelect | SessionConfigBoolean"

AUTO_APPROVE: Final = "auto_approve"
"""The option that lets tools which allow it run without asking."""

_OFF_AND_ON: Final = ("off", "on")

_ASK: Final = "ask"
"""The mode in which `auto_approve` is off."""

_ASK_AND_RUN: Final = ("Ask", "Run without asking")


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
        modes_as_option: bool = True,
    ) -> None:
        self._record = record
        self._profile = profile
        self.modes: list[SessionMode] = list(modes)
        """The first is where a session starts."""
        self.options: list[Option] = [*options, *((_auto_approve(),) if auto_approve else ())]
        """With their defaults; see `value`."""
        self.modes_as_option = modes_as_option
        """Whether an option stands for the mode, too. On version 2 one does in any case."""

    def offer_auto_approve(self) -> bool:
        """Offer that tools run without asking. Returns False if it was offered before."""
        if any(option.id == AUTO_APPROVE for option in self.options):
            return False
        self.options.append(_auto_approve())
        return True

    def offer_modes(self, modes: Sequence[SessionMode]) -> None:
        """Offer these modes from now on. Raises UsageError as `check_modes`."""
        check_modes(modes)
        self.modes[:] = modes

    def replace(self, options: Sequence[Option], *, keep: bool = True) -> None:
        """Offer these options from now on, and the runtime's own as before. `keep`: whether a value that was chosen
        stays, else it is the option's own. Raises UsageError as `check_options`."""
        check_options(options)
        if not keep:
            for option in options:
                self._record.config[option.id] = option.current_value
                self._record.chosen.add(("config", option.id))
        own = [option for option in self.options if option.id == AUTO_APPROVE]
        self.options[:] = [*options, *own]

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

    def choose_if_offered(self, config_id: str, value: str | bool) -> Callable[[], None]:
        """`choose`, or nothing if there is no such option or value."""
        try:
            return self.choose(config_id, value)
        except ValueError:
            return lambda: None

    def offered(self) -> list[Option]:
        """The options as this client can show them, with their current values."""
        if not self.options:
            # What the client can show need not be read, for which the types of `initialize` would be loaded.
            return []
        session = self._profile.capabilities.session
        kinds = session.config_options if session is not None else None
        booleans = kinds is not None and kinds.boolean is not None
        return [
            option.model_copy(update={"current_value": self._value(option)})
            if booleans or option.type != "boolean"
            else _as_select(option, _OFF_AND_ON[bool(self._value(option))])
            for option in self.options
        ]

    def taken(self, config_id: str, value: str | bool) -> str | bool:
        """What a value that the client chose, among those it was shown, means here."""
        boolean = any(option.id == config_id and option.type == "boolean" for option in self.options)
        return value == "on" if boolean and value in _OFF_AND_ON else value

    # -- for clients of version 1, which know modes, options, or both

    def state(self) -> dict[str, Any]:
        """The part of an answer to session/new, load or resume that tells the client of them."""
        state: dict[str, Any] = {}
        if (modes := self.shown_modes()) and (current := self.shown_mode) is not None:
            from acp_server.schema.config_options import SessionModeState

            state["modes"] = SessionModeState(current_mode_id=current, available_modes=modes)
        if options := self.shown():
            state["config_options"] = options
        return state

    @property
    def mode_option(self) -> str | None:
        """The id of the option that stands for the mode: `mode`, unless an option of the author's has that. None where
        the author offers an option of the category `mode`: clients would show two."""
        if any(option.category == "mode" for option in self.options):
            return None
        taken = {option.id for option in self.options}
        name = "mode"
        while name in taken:
            name = f"_{name}"
        return name

    def shown(self) -> list[Option]:
        """The options with one for the mode, if there is to be one: a client that knows options does not look at
        modes."""
        current, id = self.mode, self.mode_option
        if current is None or id is None or not self.modes_as_option:
            return self.offered()
        from acp_server.schema.config_options import SessionConfigSelect, SessionConfigSelectOption

        choices = [
            SessionConfigSelectOption(value=mode.id, name=mode.name, description=mode.description)
            for mode in self.modes
        ]
        option = SessionConfigSelect(id=id, name="Mode", category="mode", current_value=current, options=choices)
        return [*self.offered(), option]

    @property
    def shown_mode(self) -> str | None:
        """The id of the current one of `shown_modes`."""
        if self.modes:
            return self.mode
        asks = self.value(AUTO_APPROVE)
        return None if asks is None else AUTO_APPROVE if asks else _ASK

    def shown_modes(self) -> list[SessionMode]:
        """The modes; without any, two for `auto_approve`, since some clients have keys for modes and none for
        options."""
        if self.modes or self.value(AUTO_APPROVE) is None:
            return self.modes
        from acp_server.schema.config_options import SessionMode

        names = zip((_ASK, AUTO_APPROVE), _ASK_AND_RUN, strict=True)
        return [SessionMode(id=id, name=name) for id, name in names]

    def in_step(self, changed: str | None) -> list[SessionUpdate]:
        """What tells the client that the other form of what has changed has changed, too. `changed`: the id of an
        option; None for the mode."""
        from acp_server.schema.updates import CurrentModeUpdate

        if changed is None:
            return [self.as_update()] if self.shown() else []
        of_mode = changed == (self.mode_option if self.modes else AUTO_APPROVE)
        current = self.shown_mode
        return [CurrentModeUpdate(current_mode_id=current)] if of_mode and current is not None else []

    def as_update(self) -> SessionUpdate:
        """The update that has all options."""
        from acp_server.schema.updates import ConfigOptionUpdate

        return ConfigOptionUpdate(config_options=self.shown())

    def _value(self, option: Option) -> str | bool:
        value = self._record.config.get(option.id)
        return value if value is not None and value in choices(option) else option.current_value


def settings_of(record: SessionRecord, profile: ClientProfile, definition: AgentDefinition) -> Settings:
    """The settings of a session as the agent declares them, with the values that the session's record has."""
    return Settings(
        record,
        profile,
        definition.modes,
        definition.config_options,
        auto_approve=definition.auto_approve,
        modes_as_option=definition.modes_as_option,
    )


def _auto_approve() -> SessionConfigBoolean:
    from acp_server.schema.config_options import SessionConfigBoolean

    return SessionConfigBoolean(
        id=AUTO_APPROVE,
        name="Approve tools automatically",
        description="Run tools that allow it without asking first.",
        current_value=False,
    )


def _as_select(option: SessionConfigBoolean, current: str) -> Option:
    """For a client that knows no booleans."""
    from acp_server.schema.config_options import SessionConfigSelect, SessionConfigSelectOption

    names = _ASK_AND_RUN if option.id == AUTO_APPROVE else ("Off", "On")
    choices = [
        SessionConfigSelectOption(value=value, name=name) for value, name in zip(_OFF_AND_ON, names, strict=True)
    ]
    return SessionConfigSelect(
        id=option.id,
        name=option.name,
        description=option.description,
        category=option.category,
        current_value=current,
        options=choices,
    )


def choices(option: Option) -> Sequence[str | bool]:
    """The values that an option can have."""
    if option.type == "boolean":
        return (True, False)
    values: list[str] = []
    for choice in cast("list[Any]", option.options):
        values += [inner.value for inner in choice.options] if hasattr(choice, "options") else [choice.value]
    return values


def check_modes(modes: Sequence[SessionMode]) -> None:
    """Raise UsageError for what is not a mode, and for two of one id."""
    if not modes:
        return
    from acp_server.schema.config_options import SessionMode

    for mode in modes:
        if not isinstance(cast("Any", mode), SessionMode):
            raise UsageError(f"a mode is a SessionMode of acp_server.schema, and not {mode!r}")
        if not (mode.id and mode.name):
            raise UsageError(f"a mode has an id, and a name that the user reads: {mode!r}")
    _check_ids("modes", [mode.id for mode in modes])


def check_options(options: Sequence[Option]) -> None:
    """Raise UsageError for what is not an option, for two of one id, and for a current value that an option has not."""
    if not options:
        return
    from acp_server.schema.config_options import SessionConfigBoolean, SessionConfigSelect

    for option in options:
        # An author's types need not be checked by a type checker.
        if not isinstance(cast("Any", option), (SessionConfigSelect, SessionConfigBoolean)):
            kinds = "a config option is a SessionConfigSelect or a SessionConfigBoolean of acp_server.schema"
            raise UsageError(f"{kinds}, and not {option!r}")
        given = choices(option)
        if option.current_value not in given:
            listed = ", ".join(map(repr, given)) or "none"
            wrong = f"the current_value {option.current_value!r} of the config option {option.id!r}"
            raise UsageError(f"{wrong} is not one of its values; there are: {listed}")
    _check_ids("config options", [option.id for option in options])


def _check_ids(what: str, ids: Sequence[str]) -> None:
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise UsageError(f"there are two {what} with the id {twice!r}; a client could not tell them apart")
