"""Programs that the tests start, and the driver that talks to them."""
