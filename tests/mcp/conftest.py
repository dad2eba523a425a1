from tests.client.processes import ear

__all__ = ["ear"]
