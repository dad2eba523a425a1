"""The user's settings in one session: its mode and its config options (ACP, Session Modes and Session Config Options).

The values are part of the session's record, so they outlive the connection. `acp_server.session.choosing` handles the
client's choices.
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
"""The id of the option that skips the approval of tools that allow skipping it."""

_OFF_AND_ON: Final = ("off", "on")

_ASK: Final = "ask"
"""The id of the mode that means that `auto_approve` is off."""

_ASK_AND_RUN: Final = ("Ask", "Run without asking")


class Settings:
    """The modes and options that a session offers, and the chosen values."""

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
        """The modes on offer. A session starts in the first one."""
        self.options: list[Option] = [*options, *((_auto_approve(),) if auto_approve else ())]
        """The options on offer, with their default values. `value` returns the current value."""
        self.modes_as_option = modes_as_option
        """Whether version 1 clients also get the mode as an option. Version 2 clients always do."""

    def offer_auto_approve(self) -> bool:
        """Offer the option `auto_approve`. Returns False if it was already on offer."""
        if any(option.id == AUTO_APPROVE for option in self.options):
            return False
        self.options.append(_auto_approve())
        return True

    def offer_modes(self, modes: Sequence[SessionMode]) -> None:
        """Replace the modes on offer. Raises UsageError like `check_modes`."""
        check_modes(modes)
        self.modes[:] = modes

    def replace(self, options: Sequence[Option], *, keep: bool = True) -> None:
        """Replace the options on offer, except `auto_approve`, which the runtime offers. `keep`: whether options keep
        their chosen values. With False each option gets its `current_value`. Raises UsageError like `check_options`."""
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
        # No mode was chosen yet, or the chosen one is no longer on offer.
        return self.modes[0].id if self.modes else None

    def has_mode(self, mode_id: str | None) -> bool:
        """Whether the mode is on offer."""
        return any(mode.id == mode_id for mode in self.modes)

    def set_mode(self, mode_id: str) -> Callable[[], None]:
        """Change the mode. Returns a function that undoes the change. Raises ValueError for a mode that is not on
        offer."""
        if not self.has_mode(mode_id):
            raise ValueError(f"{mode_id!r} is not one of this session's modes")
        record = self._record
        before, record.mode = record.mode, mode_id
        record.chosen.add(("mode",))

        def undo() -> None:
            # A later change stays.
            if record.mode == mode_id:
                record.mode = before

        return undo

    def value(self, config_id: str) -> str | bool | None:
        """Return the current value of an option; None if there is no such option."""
        return next((self._value(option) for option in self.options if option.id == config_id), None)

    def choose(self, config_id: str, value: str | bool) -> Callable[[], None]:
        """Change an option. Returns a function that undoes the change. Raises ValueError for an option or a value that
        is not on offer."""
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
        """Do the same as `choose`, but without effect if the option or the value is not on offer."""
        try:
            return self.choose(config_id, value)
        except ValueError:
            return lambda: None

    def offered(self) -> list[Option]:
        """Return the options in forms that this client can show, with their current values."""
        if not self.options:
            # Without options, the client's capabilities are not needed, and the types of `initialize` are not imported.
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
        """Convert a value that the client chose to a value of the option. A client without boolean options chooses `on`
        or `off`."""
        boolean = any(option.id == config_id and option.type == "boolean" for option in self.options)
        return value == "on" if boolean and value in _OFF_AND_ON else value

    # -- for clients of version 1, which know modes, options, or both

    def state(self) -> dict[str, Any]:
        """Return the modes and options for the response to `session/new`, `load` or `resume`."""
        state: dict[str, Any] = {}
        if (modes := self.shown_modes()) and (current := self.shown_mode) is not None:
            from acp_server.schema.config_options import SessionModeState

            state["modes"] = SessionModeState(current_mode_id=current, available_modes=modes)
        if options := self.shown():
            state["config_options"] = options
        return state

    @property
    def mode_option(self) -> str | None:
        """The id of the option for the mode: `mode`, or a similar id if the author's options use `mode`. None if the
        author offers an option of the category `mode`, because clients would show both."""
        if any(option.category == "mode" for option in self.options):
            return None
        taken = {option.id for option in self.options}
        name = "mode"
        while name in taken:
            name = f"_{name}"
        return name

    def shown(self) -> list[Option]:
        """Return the options, including the option for the mode if version 1 clients get one. A client that supports
        options ignores the modes."""
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
        """The id of the current mode of `shown_modes`."""
        if self.modes:
            return self.mode
        asks = self.value(AUTO_APPROVE)
        return None if asks is None else AUTO_APPROVE if asks else _ASK

    def shown_modes(self) -> list[SessionMode]:
        """Return the modes. If there are no modes, return two modes for `auto_approve`, because some clients have keys
        for modes but not for options."""
        if self.modes or self.value(AUTO_APPROVE) is None:
            return self.modes
        from acp_server.schema.config_options import SessionMode

        names = zip((_ASK, AUTO_APPROVE), _ASK_AND_RUN, strict=True)
        return [SessionMode(id=id, name=name) for id, name in names]

    def in_step(self, changed: str | None) -> list[SessionUpdate]:
        """Return the updates for the other form of a changed setting, since a mode is also an option. `changed`: the id
        of the changed option; None for the mode."""
        from acp_server.schema.updates import CurrentModeUpdate

        if changed is None:
            return [self.as_update()] if self.shown() else []
        of_mode = changed == (self.mode_option if self.modes else AUTO_APPROVE)
        current = self.shown_mode
        return [CurrentModeUpdate(current_mode_id=current)] if of_mode and current is not None else []

    def as_update(self) -> SessionUpdate:
        """Return the update with all options."""
        from acp_server.schema.updates import ConfigOptionUpdate

        return ConfigOptionUpdate(config_options=self.shown())

    def _value(self, option: Option) -> str | bool:
        value = self._record.config.get(option.id)
        return value if value is not None and value in choices(option) else option.current_value


def settings_of(record: SessionRecord, profile: ClientProfile, definition: AgentDefinition) -> Settings:
    """Return the settings of a session: the modes and options that the agent declares, with the values in the session's
    record."""
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
    """Convert a boolean option to a selection, for a client without boolean options."""
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
    """Return the possible values of an option."""
    if option.type == "boolean":
        return (True, False)
    values: list[str] = []
    for choice in cast("list[Any]", option.options):
        values += [inner.value for inner in choice.options] if hasattr(choice, "options") else [choice.value]
    return values


def check_modes(modes: Sequence[SessionMode]) -> None:
    """Raise UsageError if a value is not a mode, a mode has no id or no name, or two modes have one id."""
    if not modes:
        return
    from acp_server.schema.config_options import SessionMode

    for mode in modes:
        if not isinstance(cast("Any", mode), SessionMode):
            raise UsageError(f"a mode must be a SessionMode of acp_server.schema, not {mode!r}")
        if not (mode.id and mode.name):
            raise UsageError(f"a mode needs an id and a name: {mode!r}")
    _check_ids("modes", [mode.id for mode in modes])


def check_options(options: Sequence[Option]) -> None:
    """Raise UsageError if a value is not an option, two options have one id, or an option does not offer its current
    value."""
    if not options:
        return
    from acp_server.schema.config_options import SessionConfigBoolean, SessionConfigSelect

    for option in options:
        # The author may not use a type checker.
        if not isinstance(cast("Any", option), (SessionConfigSelect, SessionConfigBoolean)):
            kinds = "a config option must be a SessionConfigSelect or a SessionConfigBoolean of acp_server.schema"
            raise UsageError(f"{kinds}, not {option!r}")
        given = choices(option)
        if option.current_value not in given:
            listed = ", ".join(map(repr, given)) or "none"
            wrong = f"the current_value {option.current_value!r} of the config option {option.id!r}"
            raise UsageError(f"{wrong} is not one of its values: {listed}")
    _check_ids("config options", [option.id for option in options])


def _check_ids(what: str, ids: Sequence[str]) -> None:
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise UsageError(f"there are two {what} with the id {twice!r}, which a client could not tell apart")
