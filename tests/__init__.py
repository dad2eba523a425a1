"""The tests of acp_server, laid out like the package."""
