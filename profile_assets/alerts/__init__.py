"""Whoever must act is told, once: what is wrong is found on disk, remembered as episodes, and delivered as letters."""
