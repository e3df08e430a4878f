"""What lies on disk: where (layout), what is said of it (records), how it gets there (atomic, parquet)."""
