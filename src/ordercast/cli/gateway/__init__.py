"""`ordercast gateway`: a cluster for whoever speaks HTTP."""
