"""Every error this package raises on purpose, in one tree.

    ProfileAssetsError
    ├── PermanentError          trying again changes nothing: somebody must act
    │   ├── ProfileError        the profile file
    │   ├── ContractError       the columns of the users table
    │   ├── SourceError         the day's source files: absent, unreadable, unfinished
    │   ├── DataError           rows: over a limit, lost, doubled
    │   │   └── AccountingError the sums of a stage do not close
    │   ├── CorruptError        a file of ours that is not what its record says
    │   ├── DiskError           a disk that somebody must see to: full, read-only, not ours, two where one is needed
    │   ├── BundleError         a model bundle or the registry
    │   ├── ScoringError        the network gave something that is not a score
    │   └── GateError           a day that did not pass its checks, or was never judged
    └── TransientError          trying again later may well work
        ├── StorageError        disk, network file system, object store: they failed this time
        └── LockedError         another process holds the day

Each says what is wrong, where (file, column, row, day) and what to do: `remedy` is never empty.
"""

from __future__ import annotations


class ProfileAssetsError(Exception):
    """What is wrong, and the remedy, in two sentences."""

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} -> {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        """Keyword-only arguments survive the trip from a worker process to its parent."""
        return _rebuild, (type(self), self.what, self.remedy)


def _rebuild(kind: type[ProfileAssetsError], what: str, remedy: str) -> ProfileAssetsError:
    return kind(what, remedy=remedy)


class PermanentError(ProfileAssetsError):
    """Trying again changes nothing."""


class ProfileError(PermanentError):
    """The profile file is wrong."""


class ContractError(PermanentError):
    """The users table has not the columns that the contract promises."""


class SourceError(PermanentError):
    """The source of a day is absent, unreadable or not what its format says."""


class DataError(PermanentError):
    """The rows of a day break a rule."""


class AccountingError(DataError):
    """Rows were lost or doubled between two places."""


class CorruptError(PermanentError):
    """A file that this package wrote is not what its record says."""


class DiskError(PermanentError):
    """A disk will not take or give this, however often it is asked: full, read-only, not allowed, another mount."""


class BundleError(PermanentError):
    """A model bundle or a registry pointer is unusable."""


class ScoringError(PermanentError):
    """The network gave something that is not a score."""


class GateError(PermanentError):
    """A day did not pass, or what is to be published was never judged."""


class TransientError(ProfileAssetsError):
    """Trying again later may well work."""


class StorageError(TransientError):
    """A disk, a network file system or an object store failed."""


class LockedError(TransientError):
    """Another process is writing the same thing."""
