"""The smallest protocols around each part, for searches that look at nothing else."""
