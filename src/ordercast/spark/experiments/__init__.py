"""Experiments and campaigns on Spark: many small runs as few large tasks, kept as they finish (docs/experiments.md)."""

from ordercast.spark.experiments.experiment import Experiment, Measure, Point
from ordercast.spark.experiments.run import Results, run_experiment
from ordercast.spark.experiments.tables import aggregate

__all__ = ["Experiment", "Measure", "Point", "Results", "aggregate", "run_experiment"]
