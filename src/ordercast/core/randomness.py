"""Seeded randomness: one stream per purpose, so that adding a stream does not change the others."""

from __future__ import annotations

import hashlib
from math import exp, log
from random import Random


def random_stream(seed: int, *names: object) -> Random:
    """An independent generator for `names` under `seed`; the same on every machine, process and hash seed."""
    text = "\x1f".join([str(seed), *(str(name) for name in names)])
    return Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))


def log_uniform(random: Random, low: float, high: float) -> float:
    """A number whose order of magnitude is uniform."""
    return exp(random.uniform(log(low), log(max(low, high))))
