"""Measurement of traces: latency, throughput, packets, load, retransmissions, drops and views (docs/measure.md).

Steps are small functions from tables to tables; `measure_trace` puts them together.
"""
