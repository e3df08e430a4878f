"""What the network sees of a user: the feature spec, and the one encoding by it, offline and online."""
