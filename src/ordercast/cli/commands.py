"""The table of commands: to add one, write `cli/<name>.py` with `register(app)`, and a line here.

A command of several modules is a folder, `cli/<name>/`, with `register` in its `command.py`.

Standard library only, for it is read before the extras are known to be installed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandEntry:
    """What has to be known about a command before its module is imported."""

    module: str  # has a function register(app: typer.Typer) -> None
    help_line: str
    extras: tuple[str, ...] = ()  # what it needs besides [cli]


COMMANDS: dict[str, CommandEntry] = {
    "demo": CommandEntry(
        "ordercast.cli.demo.command", "A replicated bank on this machine, faults and all, verified.", ("lab",)
    ),
    "node": CommandEntry("ordercast.cli.node", "Run one process of a cluster."),
    "send": CommandEntry("ordercast.cli.send", "Multicast from a shell, through a running node."),
    "tail": CommandEntry("ordercast.cli.tail", "Follow what a running node delivers to a group."),
    "gateway": CommandEntry(
        "ordercast.cli.gateway.command", "A cluster for whoever speaks HTTP: publish and follow.", ("dashboard",)
    ),
    "status": CommandEntry("ordercast.cli.status", "Who is up, how far each group is, and who holds whom up."),
    "members": CommandEntry("ordercast.cli.members", "Who is in which group, as a running node knows it."),
    "join": CommandEntry("ordercast.cli.members", "Let a running node join a group."),
    "leave": CommandEntry("ordercast.cli.members", "Let a running node leave a group."),
    "processes": CommandEntry(
        "ordercast.cli.processes", "Add and remove processes of a configured cluster while it runs."
    ),
    "hub": CommandEntry("ordercast.cli.hub", "The one channel of a cluster, for protocols that need one."),
    "bench": CommandEntry("ordercast.cli.bench", "Throughput and latency of a live protocol on this machine."),
    "beacon": CommandEntry(
        "ordercast.cli.beacon.command", "How well processes reach each other, without a protocol and with one."
    ),
    "chaos": CommandEntry(
        "ordercast.cli.chaos.command",
        "Real processes under kills, partitions and loss, then verified.",
        ("lab", "spark"),
    ),
    "simulate": CommandEntry("ordercast.cli.simulate", "One deterministic run of a scenario, from a seed.", ("lab",)),
    "explore": CommandEntry(
        "ordercast.cli.explore", "Every run of a small world, searched for what goes wrong.", ("lab",)
    ),
    "verify": CommandEntry(
        "ordercast.cli.verify.command", "Every property of a trace, checked, with counterexamples.", ("lab",)
    ),
    "watch": CommandEntry(
        "ordercast.cli.watch", "The guarantees of a running cluster, looked after while it runs.", ("lab", "spark")
    ),
    "measure": CommandEntry(
        "ordercast.cli.measure.command", "Latency, throughput, packets and load of a trace.", ("lab",)
    ),
    "history": CommandEntry(
        "ordercast.cli.history", "What was found at each commit, kept in a table and compared.", ("lab",)
    ),
    "reproduce": CommandEntry(
        "ordercast.cli.reproduce",
        "Tables and graphs of the papers, made again on Spark.",
        ("lab", "spark", "dashboard"),
    ),
    "graph": CommandEntry(
        "ordercast.cli.graph.command", "Which site will order which groups, and what it costs: propagation graphs."
    ),
    "protocols": CommandEntry("ordercast.cli.protocols", "The protocols there are and what each guarantees."),
    "config": CommandEntry("ordercast.cli.config", "Make, check and show the configuration of a cluster."),
    "key": CommandEntry("ordercast.cli.key", "Make the key that the processes of a cluster share."),
    "repair": CommandEntry(
        "ordercast.cli.repair", "Let a process that has lost its log get everything back from the others."
    ),
    "doctor": CommandEntry("ordercast.cli.doctor", "What this machine has and lacks for ordercast."),
}
