"""Scenarios: one run written down, as TOML (docs/scenarios.md). What is wrong with one is told in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ordercast.core import Context, Contract, GroupId, Options, Protocol, SiteId, UsageError
from ordercast.core.tables import (
    check_keys,
    expect_table,
    expect_tables,
    nearest,
    read_toml,
    rename_options,
    to_struct,
    to_value,
    toml_text,
)
from ordercast.sim.change import Change, joined_groups, late_sites
from ordercast.sim.faults import FAULT_KINDS, AnyFault, Crash, Outage
from ordercast.sim.memory_faults import Drift, LostLog, MemoryFault
from ordercast.sim.network_table import NetworkTable, PointToPointTable, read_network_table
from ordercast.sim.simulation import Application, Simulation, fragment_seconds
from ordercast.sim.workload import Workload

FindProtocol = Callable[[str], type[Protocol]]

SEED_MAX = 2**63 - 1
"""What every reader of a trace can hold in a column."""

_FAULTS: dict[str, Any] = {fault.kind: fault for fault in AnyFault.__args__}
_KEYS = (
    "description",
    "protocol",
    "seed",
    "duration",
    "settle",
    "sites",
    "groups",
    "network",
    "storage",
    "workload",
    "fault",
    "change",
    "options",
)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines a run."""

    protocol: type[Protocol]
    groups: dict[GroupId, tuple[SiteId, ...]]
    name: str = "scenario"
    """For people and for the run's name in traces; not part of the file."""
    description: str = ""
    seed: int = 0
    duration: float = 10.0
    settle: float = 10.0
    extra_sites: tuple[SiteId, ...] = ()
    """Sites that are in no group, sources mostly: the key `sites`."""
    network: NetworkTable = PointToPointTable()
    sync_seconds: float = 0.0
    stable: bool = True
    """Whether sites have a log at all; without one nobody who crashes comes back."""
    checkpoint_records: int | None = None
    """After so many records a log is summed up; None: after as many as the protocol says."""
    workloads: tuple[Workload, ...] = ()
    faults: tuple[AnyFault, ...] = ()
    changes: tuple[Change, ...] = ()
    options: dict[str, Any] = {}
    """What the scenario sets; `protocol_options` has all of them."""

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """Every site of the run, sorted."""
        members = {site for group in self.groups.values() for site in group}
        return tuple(sorted(members | set(self.extra_sites) | self.late_sites))

    @property
    def late_sites(self) -> frozenset[SiteId]:
        """Those that begin while the others run, with their first change."""
        return late_sites(self.changes, self.groups.values())

    @property
    def all_groups(self) -> frozenset[GroupId]:
        """Every group that there ever is."""
        return frozenset(self.groups) | joined_groups(self.changes)

    @property
    def contract(self) -> Contract:
        """What the protocol promises with the options of this run."""
        return self.protocol.contract.with_options(self.protocol_options())

    @property
    def outside_contract(self) -> tuple[str, ...]:
        """What of this scenario the protocol makes no promises for, in words; its claims may fail then."""
        contract = self.contract
        # Where a minority may die, a crash is no fault that the protocol does not know; whoever comes back from one is
        # a stranger, and what is claimed of the run says so.
        # A site that has lost its memory, or its configuration, is refused; what is claimed of such a run says so.
        faults = [
            fault
            for fault in self.faults
            if not ((contract.minority_may_die or contract.successive_deaths) and isinstance(fault, Crash))
            and not isinstance(fault, MemoryFault)
        ]
        made_of = {kind for fault in faults for kind in fault.made_of or (fault.kind,)}
        kinds = [kind for kind in sorted(made_of) if kind not in contract.faults]
        words = [f"{contract.name} does not tolerate the fault {kind}" for kind in kinds]
        if contract.single_source:
            sources = {source for workload in self.workloads for source in workload.sources}
            failing = {site for fault in self.faults if fault.kind in _FAILURES for site in fault.sites}
            words += [
                f"{contract.name} asks for sources that do not fail, and {site} does"
                for site in sorted(sources & failing)
            ]
        return tuple(words)

    def check(self) -> None:
        """Raise `UsageError`, in one line, when this cannot be run."""
        _check_sites(self)
        if not 0 <= self.seed <= SEED_MAX:
            raise UsageError(f"seed: is from 0 to {SEED_MAX}, not {self.seed}")
        if self.duration <= 0:
            raise UsageError(f"duration: is positive, not {self.duration}")
        if self.settle < 0:
            raise UsageError(f"settle: is 0 or more, not {self.settle}")
        if self.sync_seconds < 0:
            raise UsageError(f"[storage]: sync is 0 or more seconds, not {self.sync_seconds}")
        if self.checkpoint_records is not None and self.checkpoint_records < 1:
            raise UsageError(f"[storage]: checkpoint is 1 or more records, not {self.checkpoint_records}")
        if not self.stable and self.protocol.records and any(map(needs_log, self.faults)):
            raise UsageError("[storage]: whoever comes back from a crash needs a log; leave out such faults, or log")
        try:
            network = self.network.make(self.sites)
        except UsageError as error:
            raise UsageError(f"[network]: {error}") from error
        contract = self.contract
        for number, change in enumerate(self.changes, 1):
            try:
                change.check(self.sites, self.all_groups, contract)
                self._check_members(change, contract)
                if change.at >= self.duration:
                    raise UsageError(f"at = {change.at} is not before the end, duration = {self.duration}")
            except UsageError as error:
                raise UsageError(f"[[change]] {number}: {error}") from error
        for number, workload in enumerate(self.workloads, 1):
            try:
                _check_workload(self, workload, contract)
            except UsageError as error:
                raise UsageError(f"[[workload]] {number}: {str(error).removeprefix('workload: ')}") from error
        for number, fault in enumerate(self.faults, 1):
            try:
                fault.check(frozenset(self.sites))
                if isinstance(fault, Outage):
                    fault.check_network(network)
                if isinstance(fault, LostLog):
                    fault.check_contract(self.protocol.contract)
                if isinstance(fault, Drift):
                    self._check_core(fault.options, "fault 'drift': options")
            except UsageError as error:
                raise UsageError(f"[[fault]] {number}: {str(error).removeprefix('fault ')}") from error
            if fault.from_ >= self.duration:
                raise UsageError(
                    f"[[fault]] {number}: from = {fault.from_} is not before the end, duration = {self.duration}"
                )
        if self.protocol.contract.one_channel and not self.network.one_order:
            raise UsageError(
                f"[network]: {self.protocol.contract.name} needs a channel that shows everyone the same order; "
                f'write kind = "one-channel" (or "broadcast")'
            )
        self._check_core()

    def _check_members(self, change: Change, contract: Contract) -> None:
        """Where nobody can join, only a member can choose."""
        members = self.groups.get(change.group, ())
        for site in change.sites:
            if not contract.dynamic and site not in members:
                raise UsageError(f"{site!r} is not in {change.group}; its members are {', '.join(members)}")

    def _check_core(self, changes: Mapping[str, Any] = {}, where: str = "[options]") -> None:
        """A protocol may refuse options that make no sense for these sites: ask it before anything runs."""
        kind = self.protocol.contract.options
        options = to_struct({**msgspec.to_builtins(self.protocol_options()), **changes}, kind, where)
        groups = {group: tuple(sorted(members)) for group, members in self.groups.items()}
        late = self.late_sites
        sites = tuple(site for site in self.sites if site not in late) or self.sites[:1]
        try:
            self.protocol(
                Context(
                    site=sites[0], groups=groups, sites=sites, options=options, random=Random(0), stable=self.stable
                )
            )
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error

    def protocol_options(self) -> Options:
        """The protocol's options: what the scenario sets, and what follows from the rest of it."""
        kind = self.protocol.contract.options
        options = rename_options(self.options, kind, "[options]")
        # What a protocol may have to know of its surroundings (Spauster 6.4.2), always under these names.
        if "phi_n" in kind.__struct_fields__:
            options.setdefault("phi_n", self.network.bound(self.network.make(self.sites)))
        if "phi_p" in kind.__struct_fields__:
            options.setdefault("phi_p", fragment_seconds(self.network.make(self.sites), self.sync_seconds))
        if "sources" in kind.__struct_fields__:
            sources = {source for workload in self.workloads for source in workload.sources}
            named = options.setdefault("sources", sorted(sources))
            for source in sorted(sources):
                if isinstance(named, list | tuple) and named and source not in named:
                    raise UsageError(
                        f"[options]: sources leaves out {source!r}, which a workload has multicast; add it"
                    )
        try:
            return to_struct(options, kind, "[options]")
        except UsageError as error:
            text = str(error)
            raise UsageError(text if text.startswith("[options]") else f"[options]: {text}") from error

    def simulation(
        self,
        *,
        seed: int | None = None,
        run: str | None = None,
        tracing: bool = True,
        counting: bool = False,
        check_invariants: bool = True,
        application: Application | None = None,
    ) -> Simulation:
        """The run, ready to execute; with another seed where one is given."""
        seed = self.seed if seed is None else seed
        return Simulation(
            self.protocol,
            self.groups,
            self.network.make(self.sites),
            sites=self.sites,
            seed=seed,
            options=self.protocol_options(),
            faults=self.faults,
            changes=self.changes,
            workloads=self.workloads,
            duration=self.duration,
            settle=self.settle,
            sync_seconds=self.sync_seconds,
            stable=self.stable,
            checkpoint_records=self.checkpoint_records,
            phi_n=self.network.phi_n,
            run=run or f"{self.name}-{seed}",
            parameters={
                "scenario": self.name,
                "network": self.network.kind,
                "faults": sorted({f.kind for f in self.faults}),
            },
            tracing=tracing,
            counting=counting,
            check_invariants=check_invariants,
            application=application,
        )


def needs_log(fault: AnyFault) -> bool:
    """Whether a site stops and comes back from its log."""
    return fault.kind in _FAILURES and fault.kind != "pause" and not getattr(fault, "forever", False)


_FAILURES = ("crash", "torn-log", "pause", "away", "rollback", "lost-log", "drift", "at-effect", "hit-leader")


def _check_sites(scenario: Scenario) -> None:
    if not scenario.all_groups:
        raise UsageError("[groups]: is empty; name at least one group and its sites")
    for group, members in scenario.groups.items():
        if not members:
            raise UsageError(f"[groups]: {group} has no sites; name at least one")
        for member in members:
            if members.count(member) > 1:
                raise UsageError(f"[groups]: {group} has {member!r} twice; name it once")
    for group in sorted(scenario.all_groups):
        _check_name(group, "[groups]" if group in scenario.groups else "[[change]]: group")
    for site in scenario.sites:
        _check_name(site, "sites")


def _check_name(name: str, where: str) -> None:
    """Names stand in tables, diagrams and file names of people; one with blanks or line ends would break those."""
    if not name or not name.isprintable() or " " in name:
        raise UsageError(f"{where}: {name!r} is no name; use letters, digits and marks, without blanks")


def _check_workload(scenario: Scenario, workload: Workload, contract: Contract) -> None:
    workload.check(frozenset(scenario.sites), scenario.all_groups)
    if not workload.sources:
        raise UsageError("sources is empty; name the sites that multicast")
    if workload.start >= scenario.duration:
        raise UsageError(
            f"start = {workload.start} is not before duration = {scenario.duration}, when the workload ends"
        )
    at_once = 0 if workload.destinations is not None else workload.choose or len(workload.groups)
    if at_once > 1 and not contract.several_groups:
        raise UsageError(
            f"{contract.name} multicasts to one group at a time; write choose = 1, or a [[workload]] for each group"
        )
    if workload.destinations is not None and not contract.explicit_destinations:
        raise UsageError(f"{contract.name} addresses groups; name groups instead of a number of destinations")


# ---------------------------------------------------------------------- files
def load_scenario(path_or_name: str | Path, find_protocol: FindProtocol) -> Scenario:
    """The scenario in a file, or a shipped one by name; `find_protocol` finds protocols by name."""
    path = _find(path_or_name)
    return parse_scenario(read_toml(path), find_protocol, name=path.stem, folder=path.parent, where=str(path))


def parse_scenario(
    document: dict[str, Any],
    find_protocol: FindProtocol,
    *,
    name: str = "scenario",
    folder: Path = Path(),
    where: str = "scenario",
) -> Scenario:
    """The scenario of a TOML document; `where` begins every complaint."""
    check_keys(document, _KEYS, where)
    for key in ("protocol", *(() if "change" in document else ("groups",))):
        if key not in document:
            raise UsageError(f"{where}: the key {key!r} is missing; add it")
    try:
        protocol = find_protocol(to_value(document["protocol"], str, f"{where}: protocol"))
    except UsageError as error:
        text = str(error)
        raise UsageError(text if text.startswith(where) else f"{where}: protocol: {text}") from error

    def value(key: str, kind: Any, default: Any) -> Any:
        return to_value(document[key], kind, f"{where}: {key}") if key in document else default

    storage = expect_table(document.get("storage", {}), f"{where}: [storage]")
    check_keys(storage, ("sync", "log", "checkpoint"), f"{where}: [storage]")
    groups = expect_table(document.get("groups", {}), f"{where}: [groups]")
    workloads = expect_tables(document.get("workload", []), f"{where}: workload")
    faults = expect_tables(document.get("fault", []), f"{where}: fault")
    changes = expect_tables(document.get("change", []), f"{where}: change")
    scenario = Scenario(
        protocol=protocol,
        name=name,
        description=value("description", str, ""),
        seed=value("seed", int, 0),
        duration=value("duration", float, 10.0),
        settle=value("settle", float, 10.0),
        extra_sites=value("sites", tuple[str, ...], ()),
        groups={
            group: to_value(members, tuple[str, ...], f"{where}: [groups]: {group}")
            for group, members in groups.items()
        },
        network=read_network_table(document.get("network", {}), folder, f"{where}: [network]"),
        sync_seconds=to_value(storage.get("sync", 0.0), float, f"{where}: [storage]: sync"),
        stable=to_value(storage.get("log", True), bool, f"{where}: [storage]: log"),
        checkpoint_records=to_value(storage.get("checkpoint"), int | None, f"{where}: [storage]: checkpoint"),
        workloads=tuple(
            to_struct(table, Workload, f"{where}: [[workload]] {number}") for number, table in enumerate(workloads, 1)
        ),
        faults=tuple(_fault(table, f"{where}: [[fault]] {number}") for number, table in enumerate(faults, 1)),
        changes=tuple(
            to_struct(table, Change, f"{where}: [[change]] {number}") for number, table in enumerate(changes, 1)
        ),
        options=expect_table(document.get("options", {}), f"{where}: [options]"),
    )
    try:
        scenario.check()
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return scenario


def _fault(table: dict[str, Any], where: str) -> AnyFault:
    kind = table.get("kind")
    if kind is None:
        raise UsageError(f"{where}: the key 'kind' is missing; it is one of {', '.join(FAULT_KINDS)}")
    if not isinstance(kind, str) or kind not in _FAULTS:
        raise UsageError(f"{where}: there is no fault {kind!r}; {nearest(str(kind), FAULT_KINDS)}")
    fault: AnyFault = to_struct(table, _FAULTS[kind], where)
    return fault


def dump_scenario(scenario: Scenario) -> str:
    """The scenario as TOML text, from which `load_scenario` makes the same one."""
    return toml_text(scenario_document(scenario))


def scenario_document(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain values, in the order in which a file has them."""
    document: dict[str, Any] = {
        "description": scenario.description,
        "protocol": scenario.protocol.contract.name,
        "seed": scenario.seed,
        "duration": scenario.duration,
        "settle": scenario.settle,
        "sites": list(scenario.extra_sites),
        "groups": {group: list(members) for group, members in scenario.groups.items()},
        "network": _without_nothing(msgspec.to_builtins(scenario.network)),
        "storage": _storage_table(scenario),
        "workload": [_without_nothing(msgspec.to_builtins(workload)) for workload in scenario.workloads],
        "fault": [_without_nothing(msgspec.to_builtins(fault)) for fault in scenario.faults],
        "change": [msgspec.to_builtins(change) for change in scenario.changes],
        "options": scenario.options,
    }
    return {key: value for key, value in document.items() if value not in ("", [], {})}


def _storage_table(scenario: Scenario) -> dict[str, Any]:
    """What differs from the defaults."""
    table = {
        "sync": scenario.sync_seconds or None,
        "log": None if scenario.stable else False,
        "checkpoint": scenario.checkpoint_records,
    }
    return _without_nothing(table)


def _without_nothing(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: what is not set is left out."""
    return {key: value for key, value in table.items() if value is not None}


def _find(path_or_name: str | Path) -> Path:
    path = Path(path_or_name)
    shipped = shipped_scenarios()
    name = str(path_or_name)
    if name in shipped:
        return shipped[name]
    if not path.exists() and path.suffix != ".toml" and len(path.parts) < 2:
        raise UsageError(f"there is no scenario {name!r}; {nearest(name, shipped)} (or name a .toml file)")
    return path


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with ordercast: name -> file."""
    folder = Path(str(files("ordercast.sim") / "scenarios"))
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def iterate_shipped(find_protocol: FindProtocol) -> Iterable[Scenario]:
    """All shipped scenarios, by name."""
    return (load_scenario(name, find_protocol) for name in shipped_scenarios())
