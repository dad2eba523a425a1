"""Clients in plain Python with one fault each, and one without; run as `python FOLDER NAME AGENT...`."""
