"""A cancellation that has left its own scope, as a library's bug may let it."""

import anyio


async def stray_cancellation() -> BaseException:
    """The backend's cancellation of a scope that is over."""
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            kept.append(error)
            raise
    return kept[0]
