"""The measurements behind benchmarks/RESULTS.md, for anyone to run: `make bench`, or `python -m benchmarks --help`.

Every contestant is a module of its own that runs as a fresh process and is measured from outside (`process`); rounds
alternate between contestants (`rounds`), and what is quoted is a ratio within a round or CPU time per user.
"""
