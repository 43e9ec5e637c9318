"""What is to notice the mutants of a module: its fast tests, campaigns, searches of small worlds."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from tests.mutants.machine.mutants import PROJECT

HOSTS = "tests.protocols.parts.hosts"


class Plan(NamedTuple):
    """Of one module."""

    tests: tuple[str, ...]
    """Files, or patterns of them, below `tests/`."""
    campaigns: tuple[str, ...]
    """Protocols by name, and cores of the tests as `module:class`."""
    worlds: tuple[str, ...] = ()
    """As `ordercast explore` names them."""

    def test_files(self) -> tuple[str, ...]:
        """The files."""
        return tuple(str(path) for pattern in self.tests for path in sorted((PROJECT / "tests").glob(pattern)))

    def proof(self) -> str:
        """A hash of the tests: what has survived them is tried again when they change."""
        texts = b"".join(Path(path).read_bytes() for path in self.test_files())
        return hashlib.sha256(texts + repr(self).encode()).hexdigest()[:16]


_PARTS = "protocols/parts/test_parts.py"
_SCALATOM = "protocols/test_scalatom*.py"
_STEPS = "protocols/test_scalatom_steps.py"
_THREE_STEP = "protocols/test_three_step*.py"
_CELLS = Plan((_PARTS, _SCALATOM, _THREE_STEP), ("scalatom", "three-step"), ("scalatom", "three-step"))
"""Pieces that are in systems of cells and nowhere else."""
_RULES = "protocols/parts/test_consensus_rules.py"
_RETURNS = "protocols/parts/test_consensus_returns.py"
_CONSENSUS = Plan((_RULES, _RETURNS, _PARTS, _STEPS), (f"{HOSTS}:ConsensusHost", "scalatom"), ("consensus",))
_PRIMARY_RULES = "protocols/parts/test_primary_*.py"
_PRIMARY = Plan(
    (_PRIMARY_RULES, _PARTS, _THREE_STEP),
    ("tests.protocols.parts.primary_host:PrimaryHost", "three-step"),
    ("primary",),
)

PLANS: dict[str, Plan] = {
    "parts/consensus": _CONSENSUS,
    "parts/consensus_instance": _CONSENSUS,
    "parts/consensus_packets": _CONSENSUS,
    "parts/quorum": Plan(
        (_PARTS, "protocols/parts/test_lease.py"), (f"{HOSTS}:ConsensusHost",), ("consensus", "lease")
    ),
    "parts/primary": _PRIMARY,
    "parts/primary_packets": _PRIMARY,
    "parts/lease": Plan(
        (
            "protocols/parts/test_lease_rules.py",
            "protocols/parts/test_lease.py",
            "protocols/test_propagation_graph_relaxed.py",
        ),
        ("propagation-graph",),
        ("lease",),
    ),
    "parts/link": Plan(
        ("protocols/parts/test_link_rules.py", _PARTS, _STEPS),
        (f"{HOSTS}:LinkHost", f"{HOSTS}:ConsensusHost"),
        ("link", "link-full"),
    ),
    "parts/multicast": Plan(
        ("protocols/parts/test_multicast_rules.py", _PARTS, _STEPS),
        (f"{HOSTS}:MulticastHost", f"{HOSTS}:EagerMulticastHost", "scalatom"),
        ("multicast", "multicast-eager"),
    ),
    "parts/detector": Plan(
        ("protocols/parts/test_detector_rules.py", "protocols/parts/test_detector.py", _PARTS),
        (f"{HOSTS}:ConsensusHost", "scalatom"),
        ("detector",),
    ),
    "parts/back_off": Plan(
        ("protocols/parts/test_back_off.py", "protocols/parts/test_detector.py"),
        ("sequencer", "two-phase", "lamport"),
        ("sequencer",),
    ),
    "parts/numbered": Plan(
        ("protocols/parts/test_numbered.py", "protocols/test_sequencer.py"),
        ("sequencer", "lamport", "fan-1", "tree-5"),
        ("lamport", "tree-5"),
    ),
    "parts/names": Plan(("protocols/test_token_changes.py",), ("token", "propagation-graph"), ("token",)),
    "parts": _CELLS,
    "fan": Plan(("protocols/test_fan.py",), ("fan-0", "fan-1", "fan-2", "fan-3"), ("fan-1", "fan-2", "fan-3")),
    "tree_5": Plan(("protocols/test_tree_5.py",), ("tree-5",), ("tree-5",)),
    "classic/sequencer": Plan(("protocols/test_sequencer.py",), ("sequencer",), ("sequencer",)),
    "classic/token": Plan(("protocols/test_token*.py",), ("token",), ("token",)),
    "classic/two_phase": Plan(("protocols/test_two_phase.py",), ("two-phase",), ("two-phase",)),
    "classic/lamport": Plan(("protocols/test_lamport.py",), ("lamport",), ("lamport",)),
    "propagation_graph": Plan(
        ("protocols/test_propagation_graph*.py",), ("propagation-graph",), ("propagation-graph",)
    ),
    "broadcast_tree": Plan(("protocols/test_broadcast_tree*.py",), ("broadcast-tree",), ("broadcast-tree",)),
    "scalatom": Plan((_SCALATOM,), ("scalatom",), ("scalatom",)),
    "three_step": Plan((_THREE_STEP,), ("three-step",), ("three-step",)),
    "selective_total": Plan(("protocols/test_selective_total*.py",), ("selective-total",), ("selective-total",)),
    "intergroup": Plan(("protocols/intergroup/test_*.py",), ("intergroup",), ("intergroup",)),
}
"""By module, or by a folder above it; the nearest counts."""

CAMPAIGNS: tuple[str, ...] = tuple(dict.fromkeys(name for plan in PLANS.values() for name in plan.campaigns))
"""All that any plan has."""

CORE: dict[str, tuple[str, ...]] = {
    "parts/consensus": (
        *("Consensus.choose", "Consensus.is_decided", "Consensus.adopt", "Consensus._enter", "Consensus._propose"),
        *("Consensus._propose_collected", "Consensus._propose_first", "Consensus._own_estimate"),
        *("Consensus.on_propose", "Consensus.on_ack", "Consensus._add_ack", "Consensus._add_estimate"),
        *("Consensus.recall_promised", "Consensus.recall_adopted", "Consensus.recall_decided"),
        *("Consensus.state", "Consensus.restore", "Consensus._decide"),
    ),
    "parts/consensus_instance": ("Instance.__init__",),
    "parts/quorum": ("Quorum.__init__", "Quorum.is_met", "Quorum.missing"),
    "parts/primary": (
        *("Primary.__init__", "Primary.may_speak", "Primary.leads", "Primary.hear"),
        *("Primary._promise", "Primary._report", "Primary.on_promise", "Primary._try_start", "Primary._collects"),
        *("Primary.choose", "Primary.clock_of", "Primary._install", "Primary.send_start", "Primary.on_start"),
        *("Primary._is_news", "Primary._take", "Primary.recall_promised", "Primary.recall_started"),
    ),
    "parts/lease": (
        *("Lease.__init__", "Lease.start", "Lease.release", "Lease.is_held", "Lease.ask", "Lease.on_lease_ask_timeout"),
        *("Lease.on_lease_grant", "Lease._add_grant", "Lease.is_enough", "Lease._hold"),
        *("Lease._stop_holding", "Lease.on_lease_request", "Lease._may_grant", "Lease._grant", "Lease._take_back"),
    ),
    "parts/link": (
        *("Link.__init__", "Link.post", "Link.estrange", "Link.restore", "Link.on_receipt", "Link.acknowledge"),
        *("Link._send_receipt", "_runs"),
    ),
    "parts/multicast": (
        *("Finished.raise_floor", "Finished.begin_life", "Finished.merge", "Finished.__contains__"),
        *("ReliableMulticast._post_copy", "ReliableMulticast.on_data"),
        *("ReliableMulticast._take_floor", "ReliableMulticast.take", "ReliableMulticast._take"),
        "ReliableMulticast.is_finished",
    ),
}
"""Module -> functions whose mistakes lose agreement, a message, or give two holders: none of their mutants may
survive."""


def find_plan(module: str) -> Plan:
    """The plan of a module; `KeyError` when nobody has thought of it."""
    name = module
    while name not in PLANS:
        name, slash, _ = name.rpartition("/")
        if not slash:
            raise KeyError(f"no plan for the mutants of {module}: add one to tests/mutants/machine/plan.py")
    return PLANS[name]


def is_core(module: str, function: str) -> bool:
    """Whether a mistake there loses agreement."""
    return function in CORE.get(module, ())
