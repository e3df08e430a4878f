"""Dagster's view of the pipeline: partitions, assets, checks, jobs, schedules. Thin shells over the rooms."""
