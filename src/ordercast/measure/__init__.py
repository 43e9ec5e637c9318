"""Latency, throughput, packets, load, retransmissions, drops and views of a trace (what each means: docs/measure.md).

    measured = measure_here("trace", Grouping("run"))
    measured.rows["latency"]

Here they are computed in this process, with pandas; `ordercast.spark.measure` computes the same tables on Spark.
"""

from ordercast.measure.grouping import Grouping
from ordercast.measure.here import measure_here
from ordercast.measure.measures import Measured, Measures

__all__ = ["Grouping", "Measured", "Measures", "measure_here"]
