"""Child sessions of a storm: their ids."""


def parent_of_all(session: str) -> str:
    """The session that a client has opened, by its id or by that of a child of any depth."""
    return session.partition(".sub_")[0]


def is_child(session: str) -> bool:
    """Whether this is the id of a child session."""
    return parent_of_all(session) != session
