"""Is the day good enough to be seen: measures, expectations over them, and freshness."""
