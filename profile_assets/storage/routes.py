"""How a published score came about, as the column `route` tells of each row, in score files and in the table."""

from __future__ import annotations

FULL = "full"
CARRIED = "carried"
CANARY = "canary"
ROUTES = (FULL, CARRIED, CANARY)
"""`full` is a forward pass of the day; `carried` is the score of an earlier day whose model input was the same;
`canary` is a forward pass of the day by the bundle that is tried on a share of the users.

Only ever appended to: the place of a name in this list is what lookups store.
"""
ROUTE_COLUMN = "route"
