"""Make an artefact: run its experiment, aggregate, hold the paper's claims against the data, write it all down."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from ordercast.core import StorageError
from ordercast.papers.artefact import Artefact, Check, verdict
from ordercast.spark.experiments import aggregate, run_experiment
from ordercast.spark.experiments.run import Progress
from ordercast.spark.experiments.tables import repetition_table
from ordercast.spark.experiments.version import code_version

FILES = ("data.parquet", "data.csv", "figure.png", "README.md", "verdict.json")


def reproduce(
    artefact: Artefact,
    spark: SparkSession,
    results: Path,
    *,
    fast: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Write `results/NAME/`; the content of its verdict.json."""
    experiment = artefact.experiment(fast)
    folder = results / artefact.name
    # Under its name, runs of another version of the code are not taken for runs of this one.
    progress = folder / f".progress-{code_version()}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = run_experiment(experiment, spark, progress_file=progress, on_progress=on_progress)
        repetitions = done.repetitions
        if artefact.live is not None:
            found = [(point, 0, 0, values) for point, values in artefact.live(fast)]
            repetitions = pa.concat_tables([repetitions, repetition_table(experiment, found)])
        data = artefact.shape(aggregate(spark, experiment, repetitions)).toArrow()
        document = write(artefact, data, folder, fast=fast, runs=repetitions.num_rows)
        for file in folder.glob(".progress-*.jsonl"):
            file.unlink()
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}; name another folder with --results") from error
    return document


def write(artefact: Artefact, data: pa.Table, folder: Path, *, fast: bool, runs: int) -> dict[str, Any]:
    """The five files, from the data alone."""
    frame = data.to_pandas()
    checks = list(artefact.checks(frame))
    document: dict[str, Any] = {
        "artefact": artefact.name,
        "paper": artefact.paper,
        "verdict": verdict(checks),
        "checks": [{"claim": each.claim, "holds": bool(each.holds), "evidence": each.evidence} for each in checks],
        "fast": fast,
        "runs": runs,
    }
    pq.write_table(data, _new(folder / "data.parquet"), compression="zstd")
    pa_csv.write_csv(data, _new(folder / "data.csv"))
    draw(artefact, frame, _new(folder / "figure.png"))
    _new(folder / "README.md").write_text(_readme(artefact, document, checks, data), encoding="utf-8")
    _new(folder / "verdict.json").write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    # All at once, as far as a file system can: the files of two runs do not mix when this one is killed.
    for name in FILES:
        os.replace(_new(folder / name), folder / name)
    return document


def _new(file: Path) -> Path:
    return file.with_name(f".new-{file.name}")


def draw(artefact: Artefact, frame: pd.DataFrame, file: Path) -> None:
    """The figure, without a display and without touching matplotlib's global state."""
    figure = Figure(figsize=artefact.figure_inches, layout="constrained")
    FigureCanvasAgg(figure)
    artefact.draw(frame, figure)
    figure.savefig(file, dpi=120, format="png")


def _readme(artefact: Artefact, document: dict[str, Any], checks: Sequence[Check], data: pa.Table) -> str:
    fast = document["fast"]
    made = f"{document['runs']:,} runs{' (`--fast`: a part of the grid, fewer repetitions)' if fast else ''}."
    again = f"Again: `ordercast reproduce {artefact.name}{' --fast' if fast else ''}`."
    measures = (
        "Of each measure: the mean, half the width of its 95 % interval (`_half_width`), the least and the largest."
    )
    lines = [
        f"# {artefact.title}",
        "",
        f"{artefact.paper}. Verdict: **{document['verdict']}**.",
        "",
        "![figure](figure.png)",
        "",
        "## What the paper says",
        artefact.says.strip(),
        "",
        "## How it is made here",
        artefact.made.strip(),
        "",
        f"{made} {again}",
        "",
        "## The claims, held against the data",
        "| claim | holds | evidence |",
        "| --- | --- | --- |",
        *(f"| {_cell(each.claim)} | {'yes' if each.holds else '**no**'} | {_cell(each.evidence)} |" for each in checks),
        "",
        "## The data",
        f"`data.parquet` and `data.csv`: {data.num_rows:,} rows. {measures}",
        "",
        ", ".join(f"`{name}`" for name in data.column_names),
        "",
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
