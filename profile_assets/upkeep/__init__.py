"""What keeps a deployment in order: the state of its days, their proof from disk, and the end of what is old."""
