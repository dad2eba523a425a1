"""Programs that we start: each leads a process group of its own, is listened to, and ends without leftovers."""
