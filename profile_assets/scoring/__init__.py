"""A bundle applied to the shards of a day: one fixed forward shape, one checkpoint a shard."""
