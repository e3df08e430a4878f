"""Scores every user's profile every day, as a Dagster asset graph that never publishes half a day."""
