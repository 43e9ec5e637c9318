"""Clusters on this machine, under load and measured.

    result = measure(Load(nodes=3, seconds=1.0, protocol="sequencer"))
    result["messages_per_second"], result["p99_ms"]

`Load` is in `load`, `measure` in `run`. Every process of a cluster is one of its own, as it would be in a deployment;
it imports this package, so nothing is imported here that it does not need itself.
"""
