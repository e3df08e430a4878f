"""How others score the same users with the same network. Each is optional; what is not installed is not run."""
