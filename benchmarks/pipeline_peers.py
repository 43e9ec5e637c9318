"""What others do in one process: the same question about order, put to pandas, Polars, DuckDB, and numpy with scipy.

    python benchmarks/pipeline_peers.py NAME FOLDER REPEAT

prints one JSON object: how long each round took, by the clock and on the cores, and how many violations it found.
Formulations for tables:

- self-join: every two deliveries of a message at two sites side by side, sorted by the first site's order; a
  violation is a step back in the second site's;
- windows: a row a message with a column a site, so that the rows, sorted by one site's column, show the others' steps
  back; no join, one sort a site;
- edges, for acyclic order: a window gives each delivery the next one at its site. Whether such edges close a circle no
  table engine can say in fewer rounds than the longest order has messages, so scipy says it.

Each is tried on everything at once and file by file (a run never spans files). All may use both cores.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

COLUMNS = ["run", "site", "seq", "kind", "message"]

Check = Callable[[Sequence[Path]], int]


# --- pandas -----------------------------------------------------------------------------------------------------


def _pandas_deliveries(files: Sequence[Path]) -> pd.DataFrame:
    tables = [pq.read_table(file, columns=COLUMNS, filters=[("kind", "=", "deliver")]) for file in files]
    table = pa.concat_tables(tables).drop_columns("kind")
    codes = {name: table[name].combine_chunks().dictionary_encode().indices for name in ("run", "site", "message")}
    # A message is unique in its run only.
    message = codes["run"].to_numpy().astype(np.int64) * (codes["message"].to_numpy().max() + 1)
    return pd.DataFrame(
        {
            "run": codes["run"].to_numpy(),
            "site": codes["site"].to_numpy(),
            "seq": table["seq"].to_numpy(),
            "message": message + codes["message"].to_numpy(),
        }
    )


def pandas_self_join(files: Sequence[Path]) -> int:
    rows = _pandas_deliveries(files)
    pairs = rows.merge(rows[["message", "site", "seq"]], on="message", suffixes=("", "_other"))
    pairs = pairs[pairs["site"] < pairs["site_other"]]
    pairs = pairs.sort_values(["run", "site", "site_other", "seq"])
    same = (pairs[["run", "site", "site_other"]] == pairs[["run", "site", "site_other"]].shift()).all(axis=1)
    return int(((pairs["seq_other"] < pairs["seq_other"].shift()) & same).sum())


def pandas_windows(files: Sequence[Path]) -> int:
    rows = _pandas_deliveries(files)
    wide = rows.pivot(index=["run", "message"], columns="site", values="seq").reset_index(level="run")
    sites = sorted(rows["site"].unique())
    found = 0
    for site in sites:
        ordered = wide[wide[site].notna()].sort_values(["run", site])
        others = ordered[[other for other in sites if other > site]]
        if len(others.columns):
            found += int((others < others.groupby(ordered["run"]).ffill().groupby(ordered["run"]).shift()).sum().sum())
    return found


def pandas_edges(files: Sequence[Path]) -> int:
    rows = _pandas_deliveries(files).sort_values(["run", "site", "seq"])
    following = rows["message"].shift(-1)
    same = (rows["run"] == rows["run"].shift(-1)) & (rows["site"] == rows["site"].shift(-1))
    return _on_cycles(rows["message"][same].to_numpy(), following[same].to_numpy().astype(np.int64))


# --- Polars -----------------------------------------------------------------------------------------------------


def _polars_deliveries(files: Sequence[Path]) -> pl.LazyFrame:
    rows = pl.scan_parquet(list(files)).filter(pl.col("kind") == "deliver")
    return rows.select("run", "site", "seq", "message")


def polars_self_join(files: Sequence[Path]) -> int:
    rows = _polars_deliveries(files)
    pairs = rows.join(rows, on=["run", "message"], suffix="_other").filter(pl.col("site") < pl.col("site_other"))
    ordered = pairs.select("run", "site", "site_other", "seq", "seq_other").sort("run", "site", "site_other", "seq")
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in ("run", "site", "site_other"))
    return int(ordered.select((same & (pl.col("seq_other") < pl.col("seq_other").shift())).sum()).collect().item())


def polars_windows(files: Sequence[Path]) -> int:
    rows = _polars_deliveries(files).collect()
    sites = sorted(rows["site"].unique())
    wide = rows.group_by("run", "message").agg(
        pl.col("seq").filter(pl.col("site") == site).first().alias(site) for site in sites
    )
    found = 0
    for number, site in enumerate(sites[:-1]):
        ordered = wide.filter(pl.col(site).is_not_null()).sort("run", site)
        steps = [
            (pl.col(other) < pl.col(other).forward_fill().shift().over("run")).sum() for other in sites[number + 1 :]
        ]
        found += int(ordered.select(pl.sum_horizontal(steps)).item())
    return found


def polars_edges(files: Sequence[Path]) -> int:
    rows = _polars_deliveries(files)
    nodes = rows.select("run", "message").unique().with_row_index("before")
    ordered = rows.join(nodes, on=["run", "message"]).sort("run", "site", "seq")
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(-1) for name in ("run", "site"))
    found = ordered.select("before", pl.col("before").shift(-1).alias("after"), same.alias("same")).filter("same")
    edges = found.select("before", "after").collect()
    return _on_cycles(edges["before"].to_numpy(), edges["after"].to_numpy())


# --- DuckDB -----------------------------------------------------------------------------------------------------

_DUCKDB_SELF_JOIN = """
    with rows as (select run, site, seq, message from read_parquet($files) where kind = 'deliver')
    select count(*) from (
        select b.seq < lag(b.seq) over (partition by a.run, a.site, b.site order by a.seq) as back
        from rows a join rows b on a.run = b.run and a.message = b.message and a.site < b.site
    ) where back
"""


def duckdb_self_join(files: Sequence[Path]) -> int:
    return int(_duckdb(files, _DUCKDB_SELF_JOIN))


def duckdb_windows(files: Sequence[Path]) -> int:
    found = duckdb.execute("select distinct site from read_parquet($files)", {"files": [str(f) for f in files]})
    sites = sorted(site for (site,) in found.fetchall())
    columns = ", ".join(f"max(seq) filter (site = '{site}') as {site}" for site in sites)
    steps = []
    for number, site in enumerate(sites[:-1]):
        window = f"over (partition by run order by {site} rows between unbounded preceding and 1 preceding)"
        backs = " + ".join(f"count(*) filter ({other} < before_{other})" for other in sites[number + 1 :])
        lags = ", ".join(
            f"{other}, last_value({other} ignore nulls) {window} as before_{other}" for other in sites[number + 1 :]
        )
        steps.append(f"(select {backs} from (select {lags} from wide where {site} is not null))")
    query = f"""
        with wide as materialized (
            select run, message, {columns} from read_parquet($files) where kind = 'deliver' group by run, message
        )
        select {" + ".join(steps)}
    """
    return int(_duckdb(files, query))


_DUCKDB_EDGES = """
    with rows as (select run, site, seq, message from read_parquet($files) where kind = 'deliver'),
    nodes as (select run, message, row_number() over () - 1 as node from (select distinct run, message from rows)),
    edges as (
        select node as before, lead(node) over (partition by run, site order by seq) as after
        from rows join nodes using (run, message)
    )
    select before, after from edges where after is not null
"""


def duckdb_edges(files: Sequence[Path]) -> int:
    found = duckdb.execute(_DUCKDB_EDGES, {"files": [str(file) for file in files]}).fetchnumpy()
    return _on_cycles(found["before"], found["after"])


def _duckdb(files: Sequence[Path], query: str) -> int:
    row = duckdb.execute(query, {"files": [str(file) for file in files]}).fetchone()
    assert row is not None
    return int(row[0])


# --- numpy and scipy --------------------------------------------------------------------------------------------


def numpy_pairs(files: Sequence[Path]) -> int:
    """Pairwise order, run by run."""
    found = 0
    for orders, count in _orders(files):
        place = np.full((len(orders), count), -1, dtype=np.int32)
        for site, order in enumerate(orders):
            place[site, order] = np.arange(len(order))
        for site, order in enumerate(orders):
            for other in range(site + 1, len(orders)):
                there = place[other][order]
                there = there[there >= 0]
                found += int(np.count_nonzero(there[1:] < there[:-1]))
    return found


def scipy_cycles(files: Sequence[Path]) -> int:
    """Acyclic order, run by run: how many messages lie on cycles."""
    found = 0
    for orders, _ in _orders(files):
        before = np.concatenate([order[:-1] for order in orders])
        after = np.concatenate([order[1:] for order in orders])
        found += _on_cycles(before, after)
    return found


def _on_cycles(before: np.ndarray, after: np.ndarray) -> int:
    """How many messages more than circles lie on circles of these edges."""
    if not len(before):
        return 0
    count = int(max(before.max(), after.max())) + 1
    graph = csr_array((np.ones(len(before), dtype=np.int8), (before, after)), shape=(count, count))
    components, _ = connected_components(graph, directed=True, connection="strong")
    return count - int(components)


def _orders(files: Sequence[Path]) -> Iterator[tuple[list[np.ndarray], int]]:
    """Of each run the orders of its sites, first deliveries only, and the number of its messages."""
    coded = ["run", "site", "kind", "message"]
    for file in files:
        table = pq.ParquetFile(file, read_dictionary=coded).read(columns=COLUMNS).combine_chunks()
        run, site, kind, message = (table[name].chunk(0) for name in coded)
        seq = table["seq"].to_numpy()
        delivers = kind.indices.to_numpy() == kind.dictionary.to_pylist().index("deliver")
        starts = np.flatnonzero(np.diff(run.indices.to_numpy(), prepend=-1))
        for low, high in zip(starts, [*starts[1:], len(table)], strict=True):
            chosen = np.flatnonzero(delivers[low:high]) + low
            sites, own = site.indices.to_numpy()[chosen], message.indices.to_numpy()[chosen]
            # The codes of a run lie together, because the file is sorted by run.
            own = own - own.min()
            count = int(own.max()) + 1
            step = np.diff(sites)
            if not ((step > 0) | ((step == 0) & (np.diff(seq[chosen]) > 0))).all():
                order = np.lexsort((seq[chosen], sites))
                sites, own = sites[order], own[order]
            first = np.full((int(sites.max()) + 1) * count, len(own), dtype=np.int32)
            key = sites.astype(np.int64) * count + own
            np.minimum.at(first, key, np.arange(len(own), dtype=np.int32))
            is_first = first[key] == np.arange(len(own))
            sites, own = sites[is_first], own[is_first]
            yield np.split(own, np.flatnonzero(np.diff(sites)) + 1), count


# --- All of them ------------------------------------------------------------------------------------------------


def _by_file(check: Check, files: Sequence[Path]) -> int:
    return sum(check([file]) for file in files)


_PAIRWISE: dict[str, Check] = {
    "pandas self-join": pandas_self_join,
    "pandas windows": pandas_windows,
    "polars self-join": polars_self_join,
    "polars windows": polars_windows,
    "duckdb self-join": duckdb_self_join,
    "duckdb windows": duckdb_windows,
}
_ACYCLIC: dict[str, Check] = {
    "pandas edges": pandas_edges,
    "polars edges": polars_edges,
    "duckdb edges": duckdb_edges,
}


def _both_ways(checks: dict[str, Check]) -> dict[str, Check]:
    return checks | {f"{name} by file": partial(_by_file, check) for name, check in checks.items()}


PAIRWISE: dict[str, Check] = {**_both_ways(_PAIRWISE), "numpy": numpy_pairs}
ACYCLIC: dict[str, Check] = {**_both_ways(_ACYCLIC), "scipy": scipy_cycles}


def main() -> None:
    name, folder, repeat = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    files = sorted((folder / "events").glob("*.parquet"))
    seconds, cpu_seconds = [], []
    for _ in range(repeat):
        start, cpu_start = time.perf_counter(), time.process_time()
        found = (PAIRWISE | ACYCLIC)[name](files)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "violations": found}))


if __name__ == "__main__":
    main()
