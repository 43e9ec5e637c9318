# %% [markdown]
# # A trace in a notebook
# A simulated run with a crash, read into Spark, verified and measured. `python examples/notebook/make.py` runs these
# cells and writes `docs/trace.ipynb`.

# %%
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession

from ordercast.spark.notebook import measure, read_trace, verify

folder = tempfile.mkdtemp() + "/trace"
simulate = [sys.executable, "-m", "ordercast", "simulate", "sequencer-crash", "--seed", "7", "--trace", folder]
_ = subprocess.run(simulate, check=True, capture_output=True)

# %% [markdown]
# The module was imported before the session is begun: so Spark's workers run this Python.

# %%
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
events = read_trace(spark, folder)
events.groupBy("kind").count().orderBy("kind").show()

# %% [markdown]
# What the run claims, judged: a row for each property.

# %%
verify(events).groupBy("verdict").count().show()

# %% [markdown]
# Take one delivery away, and agreement does not hold any more. A condition on the events is one on what is judged.

# %%
(lost,) = events.where("kind = 'deliver'").orderBy("time", "site").take(1)
others = events.where((events.site != lost.site) | (events.seq != lost.seq))
verify(others, ["agreement", "integrity"]).select("property", "verdict", "why").orderBy("property").show(truncate=False)

# %% [markdown]
# Measures are tables, too. Latencies are in seconds.

# %%
latency = measure(events)["latency"]
latency.selectExpr("protocol", "at", "count", "round(p50, 4) p50", "round(p99, 3) p99").orderBy("at").show()
