"""One published score, traced back to the row that it came from and to everything that made it."""
