"""A day's users dealt into n files by a hash of their id that anyone can recompute."""
