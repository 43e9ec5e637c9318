"""The formulas of section 5, as printed and corrected.

n processes, each message to d of them, each loss with probability f, L messages in RL. Printed, F = (1 - f d/n)^d mixes
two models: d given destinations lose with probability f each, (1 - f)^d; or each of n processes is a destination with
probability d/n, (1 - f d/n)^n. Both make R_S/L nearly linear in d/n, as the text says; the printed one is quadratic.
The runs have exactly d destinations, so the first is the corrected one here.
"""

from __future__ import annotations


def received_by_all_printed(f: float, n: int, d: int) -> float:
    """F as printed."""
    return float((1 - f * d / n) ** d)


def received_by_all(f: float, n: int, d: int) -> float:
    """F for exactly d destinations."""
    return float((1 - f) ** d)


def selective(received: float) -> float:
    """R_S / L (1)."""
    return 1 - received


def go_back_n(received: float, messages: int) -> float:
    """R_G / L (2): everything from the first loss on. An upper bound: what was lost need not concern everyone."""
    return sum(received ** (at - 1) * (1 - received) * (messages - at + 1) for at in range(1, messages + 1)) / messages


def processing_printed(f: float, n: int, d: int, messages: int) -> float:
    """C / D as printed: F_0/n + F_1 R_G, with F_0 = f(d/n) (1 - f(d/n))^(nL-1), F_1 = 1 - F_0 - F^L."""
    received = received_by_all_printed(f, n, d)
    loss = f * d / n
    one = loss * (1 - loss) ** (n * messages - 1)
    several = 1 - one - received**messages
    return (one / n + several * go_back_n(received, messages) * messages) / messages


def processing(f: float, n: int, d: int, messages: int) -> float:
    """C / D corrected: any of dL receipts can be the one that fails; and R_G is an expectation already, from which the
    runs with one loss, that need no sorting, are taken out. Each process sorts its own share, d/n, of RL."""
    receipts = d * messages
    one = receipts * f * (1 - f) ** (receipts - 1)
    sorted_messages = go_back_n(received_by_all(f, n, d), messages) * messages - one * (messages + 1) / 2
    return (one / n + sorted_messages * d / n) / messages
