"""Public helpers for testing agents and clients: memory streams, a scripted client, faults on demand."""
