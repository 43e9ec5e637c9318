"""Experiments with InterGroup (Berket 2000): the control hierarchy and repair."""
