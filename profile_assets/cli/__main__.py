"""`python -m profile_assets.cli`."""

from profile_assets.cli import main

main()
