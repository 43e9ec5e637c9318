"""The Spark pipeline: sessions, tables, verification, measurements, experiments, streams.

Importing this package imports no PySpark; its modules do.
"""
