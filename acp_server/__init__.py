"""An Agent Client Protocol runtime for Python, with cancellation that works at every depth."""
