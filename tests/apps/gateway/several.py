"""Three gateways over one PostgreSQL, behind a proxy, as if they were one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from .postgres import Server as Database
from .proxy import Backend, Proxy, proxying
from .serving import Ear, Server, serving


def backend(server: Server) -> Backend:
    """Where a proxy finds it."""
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


class Several(Server):
    """Gateways behind a proxy."""

    def __init__(self, proxy: Proxy, servers: list[Server], more: Callable[[], Server]) -> None:
        one = servers[0]
        super().__init__(one.process, proxy.url, one.log, one.ear, one.drains)
        self.proxy = proxy
        self.servers = servers
        self.more = more
        """Starts another gateway of the same kind."""

    def agents(self) -> list[psutil.Process]:
        return [agent for server in self.servers for agent in server.agents()]


@contextmanager
def serving_three(database: Database, folder: Path, *options: str) -> Iterator[Several]:
    """Run them; at the end see each leave properly."""
    folder.mkdir(parents=True, exist_ok=True)
    place = database.database()
    with ExitStack() as opened:
        proxy = opened.enter_context(proxying())
        ear = Ear(folder)
        opened.callback(ear.close)
        numbers = count()

        def start() -> Server:
            place_of_one = folder / str(next(numbers))
            return opened.enter_context(serving(place_of_one, "--store", place, *options, ear=ear, log=folder / "log"))

        servers = [start() for _ in range(3)]
        proxy.backends = [backend(server) for server in servers]
        yield Several(proxy, servers, start)
