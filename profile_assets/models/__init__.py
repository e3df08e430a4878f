"""The network, its training, and the immutable bundle that scoring loads."""
