"""A store for tests: it keeps copies, waits and fails when told to, and knows what was asked of it."""

from copy import deepcopy

import anyio

from acp_server import MemoryStore
from acp_server.store.records import SessionRecord


class TestStore(MemoryStore):
    """Like a store on disk: what it keeps is not the live record."""

    __test__ = False

    def __init__(self, page_size: int = 50) -> None:
        super().__init__(page_size)
        self.calls: list[str] = []
        self.fails: set[str] = set()
        self.waits: dict[str, anyio.Event] = {}
        self.reached = anyio.Event()

    async def save(self, record: SessionRecord) -> None:
        await self._step("save")
        super().save(deepcopy(record))

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        await self._step("load")
        return deepcopy(await super().load(session_id))

    async def delete(self, session_id: str) -> None:
        await self._step("delete")
        await super().delete(session_id)

    async def _step(self, name: str) -> None:
        self.calls.append(name)
        if name in self.waits:
            self.reached.set()
            await self.waits[name].wait()
        if name in self.fails:
            raise OSError("secret path")

    @property
    def ids(self) -> set[str]:
        return set(self._records)
