"""Who runs in `scoring`: the usual code, two peers at two settings each, our scorer, and the limits."""

from __future__ import annotations

import os

from benchmarks.rounds import Contestant

CORES = len(os.sched_getaffinity(0))

PANDAS = "pandas, 512 a batch"
PANDAS_LARGE = "pandas, 65,536 a batch"
RAY = ("Ray Data, pandas 4,096", "Ray Data, Arrow 65,536")
SPARK = ("Spark, pandas_udf 4,096", "Spark, mapInArrow 65,536")
OURS = "ours, one process"
OURS_ONE_CORE = "ours, one process on one core"
OURS_ALL = f"ours, {CORES} processes"
SPLIT = "ours: split into shards"
FORWARD = "limit: forward only, one core"
LIMITS = {
    "read": "limit: read only, one core",
    "encode": "limit: encode only, one core",
    "forward": FORWARD,
    "write": "limit: write only, one core",
    "hash": "limit: md5 of the ids only, one core",
}

_RAY = "benchmarks.peers.ray_data"
_SPARK = "benchmarks.peers.spark"

SCORERS = (
    Contestant(name=PANDAS, module="benchmarks.peers.pandas_loop", options={"batch_rows": 512}),
    Contestant(name=PANDAS_LARGE, module="benchmarks.peers.pandas_loop", options={"batch_rows": 65_536}),
    Contestant(
        name=RAY[0],
        module=_RAY,
        options={"format": "pandas", "batch_rows": 4096, "actors": CORES},
        needs=("ray", "aiohttp"),
    ),
    Contestant(
        name=RAY[1],
        module=_RAY,
        options={"format": "pyarrow", "batch_rows": 65_536, "actors": CORES},
        needs=("ray", "aiohttp"),
    ),
    Contestant(
        name=SPARK[0],
        module=_SPARK,
        options={"how": "pandas_udf", "batch_rows": 4096, "cores": CORES},
        needs=("pyspark",),
    ),
    Contestant(
        name=SPARK[1],
        module=_SPARK,
        options={"how": "mapInArrow", "batch_rows": 65_536, "cores": CORES},
        needs=("pyspark",),
    ),
    Contestant(name=OURS, module="benchmarks.ours"),
    Contestant(name=OURS_ONE_CORE, module="benchmarks.ours", cores=1),
    Contestant(name=OURS_ALL, module="benchmarks.ours", options={"processes": CORES}),
)

PARTS = tuple(
    Contestant(name=name, module="benchmarks.limits", options={"part": part}, cores=1, gives_scores=False)
    for part, name in LIMITS.items()
)


def split(root: str, shards: int) -> Contestant:
    """The split of the users landed under a root of its own."""
    options = {"root": root, "shards": shards}
    return Contestant(name=SPLIT, module="benchmarks.split", options=options, gives_scores=False)
