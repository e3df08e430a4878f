"""What the commands do, with progress for people. Each is imported by the command that needs it."""
