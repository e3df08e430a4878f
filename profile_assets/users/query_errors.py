"""What databases say, as errors of ours; the database's URL, with its password, is in none of them.

Drivers quote pieces of the URL in their messages, so these are never passed on from the making of a connection, and
an exception of a driver never stands behind one of ours, where a log would print it.
"""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from profile_assets.errors import ProfileAssetsError, SourceError, StorageError

_MEANINGS = {
    "password authentication failed": "it refused the user or the password",
    "no password supplied": "it asked for a password",
    "does not exist": "it has no such user or database",
    "Connection refused": "nothing listens there",
    "No such file or directory": "nothing listens there",
    "could not translate host name": "its host is not known",
    "timeout": "it did not answer in time",
    "timed out": "it did not answer in time",
    "starting up": "it is starting up",
    "too many clients": "it takes no more connections",
    "remaining connection slots": "it takes no more connections",
    "unable to open database file": "there is no such file",
    "file is not a database": "the file is no SQLite database",
}
_PERMANENT = ("it refused", "it asked", "it has no such user", "there is no such file", "the file is no")
_TRANSIENT_STATES = ("08", "40", "53", "55", "57", "58")  # connection, conflict, resources, in use, shutdown, system


def url_of(variable: str) -> str:
    """The URL that an environment variable holds."""
    url = os.environ.get(variable, "")
    if not url:
        raise SourceError(
            f"the environment variable {variable}, which the profile names for the database's URL, is not set",
            remedy=f"set {variable} where the pipeline runs, such as postgresql://user:password@host/database",
        )
    return url


def no_connection(variable: str, error: Exception) -> ProfileAssetsError:
    """The error for a database that could not be opened."""
    meaning = next((said for mark, said in _MEANINGS.items() if mark in str(error)), "the URL may be misspelt")
    what = f"the database of ${variable} cannot be opened: {meaning}"
    if meaning.startswith(_PERMANENT) or meaning == "the URL may be misspelt":
        return SourceError(what, remedy=f"correct {variable} or the database, then run the day again")
    return StorageError(what, remedy=f"check the database and {variable}, then run the day again")


def failed_query(variable: str, error: Exception) -> ProfileAssetsError:
    """The error for a query that a database refused or broke off."""
    state = str(getattr(error, "sqlstate", None) or "")
    text = without_secrets(str(error).partition("Query was:")[0].strip(), url_of(variable))
    is_busy = "locked" in text or "terminating connection" in text or "server closed the connection" in text
    if state.startswith(_TRANSIENT_STATES) or is_busy:
        return StorageError(
            f"the database of ${variable} broke off: {text}", remedy="check the database, then run the day again"
        )
    return SourceError(
        f"the database of ${variable} refused source.query: {text}",
        remedy="correct source.query in the profile; :day is a date (write :day::text where it meets text)",
    )


def without_secrets(text: str, url: str) -> str:
    """The text with the URL, and whatever of it names a person, a place or a password, struck out."""
    try:
        parts = urlsplit(url)
        secrets = {url, parts.netloc, parts.password, parts.username, parts.hostname, parts.query}
    except ValueError:
        secrets = {url}
    for secret in sorted((one for one in secrets if one), key=len, reverse=True):
        text = text.replace(secret, "***").replace(unquote(secret), "***")
    return text
