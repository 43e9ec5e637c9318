"""What runs under a node: sockets, the wire, the log, the trace, and the protocol instance, put together."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from random import Random

import msgspec

from ordercast.core import MAIN_INSTANCE, Context, GroupId, Protocol, SiteId, UsageError
from ordercast.net.application import Application
from ordercast.net.discovery import Discovery
from ordercast.net.packets import NET_INSTANCE, NET_PACKETS
from ordercast.net.site import LiveSite
from ordercast.net.sockets import resolve
from ordercast.net.transport import Transport
from ordercast.node.addresses import HostPort, show_address
from ordercast.node.beacon_packets import BEACON_INSTANCE, BEACON_PACKETS
from ordercast.node.configuration import Configuration
from ordercast.node.journal import Attachment, Journal
from ordercast.node.lookup import Lookup
from ordercast.node.state_packets import STATE_INSTANCE, STATE_PACKETS
from ordercast.node.surroundings import Surroundings, find_surroundings
from ordercast.node.tuning import live_options
from ordercast.protocols import find_protocol
from ordercast.runtime import Instance
from ordercast.trace.live import LiveRecorder, epoch_clock
from ordercast.trace.schema import Run
from ordercast.wire.codec import Codec
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.greeting import History
from ordercast.wire.keys import ClusterKeys, read_keys

logger = logging.getLogger("ordercast.node")

WHOLE_DATAGRAM = 65_000
"""Holds any bundle: on one channel a message must not be put together from pieces, of which some came later."""


class Engine:
    """One process, from its start to its end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        configuration: Configuration,
        process: SiteId,
        application: Application,
        attachment: Callable[[], Attachment],
    ) -> None:
        """Open everything; nothing is sent or received before `start`. `UsageError` when something cannot be opened,
        and then nothing is left open."""
        self._configuration = configuration
        self.process = process
        self.protocol: type[Protocol] = find_protocol(configuration.protocol)
        self.contract = configuration.contract
        self._sites = tuple(sorted(configuration.processes))
        self._groups: dict[GroupId, tuple[SiteId, ...]] = {
            name: tuple(sorted(members)) for name, members in configuration.groups.items()
        }
        if process not in configuration.processes:
            # One that was added, or that no file names: it knows itself, and joins what the others have.
            self._sites, self._groups = (process,), {}
        if self.protocol.contract.one_channel:
            _check_channel(configuration)
        for warning in self.protocol.arrangement.warnings(self._groups, configuration.options):
            logger.warning("%s", warning)
        self.keys = None if configuration.key_file is None else read_keys(configuration.key_file)
        self.journal = Journal(configuration, process, loop, attachment, application.failed)
        self.recorder: LiveRecorder | None = None
        try:
            if self._is_changeable:
                # The file may be older than the log.
                added = {name: where for name, where in self.journal.added.items() if name != process}
                configuration = msgspec.structs.replace(configuration, added=added | configuration.added)
            self._configuration = configuration
            self._others = {name: where for name, where in configuration.addresses.items() if name != process}
            """Processes that files name, or that an operator has added, and where they are."""
            surroundings = find_surroundings(configuration, process)
            self.recorder = self._open_trace()
            self.endpoint = Endpoint(
                configuration.cluster,
                process,
                surroundings.names,
                self.keys,
                Codec(
                    {
                        MAIN_INSTANCE: self.protocol.packets,
                        NET_INSTANCE: NET_PACKETS,
                        STATE_INSTANCE: STATE_PACKETS,
                        BEACON_INSTANCE: BEACON_PACKETS,
                    }
                ),
                incarnation=self.journal.incarnation,
                stable=self.journal.stable,
                max_datagram=configuration.max_datagram,
                hears_itself=self.protocol.contract.one_channel,
                agreed=configuration.agreed(),
                history=History(self.journal.log.position, self.journal.began, repairs=self.protocol.contract.repairs),
                memory=self.journal.memory,
                listens=surroundings.own.address[:2],
                opens=self.is_open,
                changes=self._is_changeable,
            )
            self.site = LiveSite(
                loop,
                process,
                surroundings.names,
                self.endpoint,
                application,
                self.journal.start_sync,
                self.recorder,
            )
            self.transport = self._open_sockets(loop, surroundings)
        except BaseException:
            with ExitStack() as steps:
                if self.recorder is not None:
                    steps.callback(self.recorder.close, False)
                steps.callback(self.journal.close, False)
            raise
        self.journal.site = self.site
        self.address: HostPort = (self.transport.host, self.transport.port)
        """Where this process listens."""
        self.discovery: Discovery | None = None
        """The search for the others, where no file names them."""
        for name in () if self.is_open else surroundings.missing:
            self.transport.set_address(name, surroundings.nowhere)
        if self.is_open:
            self.endpoint.listen(self.address)
            self.discovery = Discovery(loop, self.endpoint, self.transport, surroundings.seeds)
        self._lookup = Lookup(
            loop, surroundings.missing, self.discovery.set_seed if self.discovery else self.transport.set_address
        )

    def _open_trace(self) -> LiveRecorder | None:
        folder = self._configuration.trace_directory
        if folder is None:
            return None
        contract = self.contract
        run = Run(
            run=self._configuration.cluster,
            protocol=contract.name,
            groups={group: sorted(members) for group, members in self._configuration.groups.items()},
            guarantees=list(contract.guarantees),
            services={service: list(names) for service, names in contract.services.items()},
        )
        journal = self.journal
        return LiveRecorder(
            folder, run, self.process, journal.incarnation, epoch_clock(), journal.lost, forgets=not journal.stable
        )

    def _open_sockets(self, loop: asyncio.AbstractEventLoop, surroundings: Surroundings) -> Transport:
        configuration, own = self._configuration, surroundings.own
        transport = Transport(
            loop,
            own,
            surroundings.processes,
            self.site.on_datagram,
            self.site.on_drained,
            configuration.max_datagram,
            configuration.socket_buffer,
            configuration.busy_poll / 1e6,
            opens=self.is_open,
        )
        if transport.buffer_bytes < configuration.socket_buffer:
            logger.warning(
                "the kernel grants socket buffers of %d bytes, not %d: raise net.core.rmem_max and wmem_max, or lower "
                "socket_buffer",
                transport.buffer_bytes,
                configuration.socket_buffer,
            )
        if configuration.channel is not None:
            transport.use_channel(resolve(*configuration.channel))
        search = configuration.discovery
        multicast = configuration.multicast if search is None else search.multicast
        if multicast is not None:
            host = own.address[0]
            beside = [where for name, where in surroundings.processes.items() if name != self.process]
            try:
                transport.join_multicast(
                    *multicast,
                    interface=configuration.interface or host,
                    own_host_too=self.is_open or any(where.address[0] == host for where in beside),
                    buffer_bytes=configuration.socket_buffer,
                )
            except BaseException:
                transport.close()
                raise
        transport.drop_junk()
        return transport

    def start(self) -> None:
        """Begin to talk."""
        configuration = self._configuration
        context = Context(
            site=self.process,
            groups=self._groups,
            sites=self._sites,
            options=live_options(
                self.protocol,
                dict(configuration.options),
                min(configuration.socket_buffer, self.transport.buffer_bytes),
                configuration.queue_bytes,
                len(configuration.addresses),
            ),
            random=Random(int.from_bytes(os.urandom(16))),
            incarnation=self.journal.incarnation,
            began=0 if self.journal.stable else self.journal.incarnation,
            stable=self.journal.stable,
        )
        core = self.protocol(context)
        self.site.instances[MAIN_INSTANCE] = Instance(
            core, self.site, self.journal.log, self.recorder, self.site.numbers
        )
        self.site.start(
            self.transport,
            configuration.multicast is not None,
            self.journal.stable,
            self.journal.lost,
            discovery=self.discovery,
        )

    def reload_keys(self) -> ClusterKeys:
        """Read the key file again: all of its lines are taken from now on, and the first one seals. The keys."""
        if self._configuration.key_file is None:
            raise UsageError("this cluster has no key: set key_file instead of insecure, and restart all processes")
        keys = self.keys = read_keys(self._configuration.key_file)
        self.endpoint.rotate(keys)
        self.site.end_turn()  # nothing else may happen for long, and the others are to be told
        logger.info("process %s has read its key file again: %r", self.process, keys)
        return keys

    @property
    def core(self) -> Protocol:
        """The protocol instance that orders messages."""
        return self.site.instances[MAIN_INSTANCE].core

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups that there are and their members: what the protocol says, once it is made."""
        return self.core.groups if MAIN_INSTANCE in self.site.instances else self._groups

    def check_groups(self, groups: tuple[GroupId, ...]) -> None:
        """Raise `UsageError` for groups that no message can have at once."""
        if MAIN_INSTANCE in self.site.instances:
            self.core.check_groups(groups)

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """The processes that there are, this one included: what the protocol says, once it is made."""
        return self.core.sites if MAIN_INSTANCE in self.site.instances else self._sites

    @property
    def is_open(self) -> bool:
        """Whether no file says which processes there are."""
        return not self._configuration.processes

    @property
    def known(self) -> set[SiteId]:
        """Those, and the others that files name or that an operator has added."""
        return {*self.sites, *self._others}

    # ------------------------------------------------------------------ processes that come and go
    def tell_others(self) -> None:
        """Tell the protocol which other processes there are, where files say it."""
        if self._is_changeable:
            self.site.discovered(tuple(sorted(self._others)), settled=True)

    def add_process(self, name: SiteId, where: HostPort) -> None:
        """From now on there is another process. `UsageError` where that cannot be."""
        self._check_changeable()
        if self._configuration.multicast is not None:
            raise UsageError(
                "this cluster sends by multicast, and a process that runs cannot ask newcomers whether they hear it; "
                "take multicast away by a restart of one process after the other, then add it"
            )
        if name == self.process or name in self._others:
            raise UsageError(f"{name} is a process already: give the new one another name")
        resolved = resolve(*where)
        for other in (self.process, *self._others):
            if self.transport.address_of(other) == resolved.address:
                raise UsageError(f"{show_address(where)} is the address of {other}: give the new process its own")
        self.endpoint.add_site(name)
        self.transport.set_address(name, resolved)
        self._others[name] = where
        self._keep_added()
        self.tell_others()
        self.site.end_turn()

    def remove_process(self, name: SiteId) -> None:
        """Want a process out of every group. `UsageError` where that cannot be."""
        self._check_changeable()
        if name == self.process:
            raise UsageError(f"{name} is the process that was asked: ask another one, or let it leave its groups")
        if name not in self.known:
            raise UsageError(f"there is no process {name!r}; known: {', '.join(sorted(self.known))}")
        if name in self.sites:
            self.site.remove(name)

    def forget_process(self, name: SiteId) -> None:
        """Talk no more with a process that was removed."""
        if self._others.pop(name, None) is not None:
            self.endpoint.remove_site(name)
            self._keep_added()
            self.tell_others()

    def _keep_added(self) -> None:
        founders = self._configuration.processes
        self.journal.keep_added({name: where for name, where in self._others.items() if name not in founders})

    def find_unknown(self, members: Iterable[SiteId]) -> list[SiteId]:
        """Those of whom nobody has told this process where they are, where that is for an operator to say."""
        if not self._is_changeable:
            return []
        return [name for name in members if name not in self._others and name != self.process]

    @property
    def _is_changeable(self) -> bool:
        """Whether files name the processes, and an operator may add some."""
        return self.contract.dynamic and not self.is_open

    def _check_changeable(self) -> None:
        if self.is_open:
            raise UsageError("the processes of this cluster find each other: start a new one with the key, or stop one")
        if not self.contract.dynamic:
            raise UsageError(
                f"{self.contract.name} has the processes of [processes]; to have others, stop all and begin anew with "
                f"another log_directory"
            )

    def apart_seeds(self) -> tuple[str, ...]:
        """Seeds of which it is not known that they have the same groups as this process: nobody was found there, or one
        who does not belong to those who decide with this one."""
        seeds = {} if self.discovery is None else self.discovery.seeds()
        return tuple(seed for seed, name in seeds.items() if name not in self.sites)

    def is_configured(self, group: GroupId) -> bool:
        """Whether this process is in a group because the configuration says so."""
        return self.process in self._groups.get(group, ())

    def stop(self, settled: bool) -> None:
        """Stop at once; `settled` is what the trace says of the run."""
        # Whatever one raises, the others run, from the last to the first.
        with ExitStack() as steps:
            if self.recorder is not None:
                steps.callback(self.recorder.close, settled, refused=self.endpoint.refused is not None)
            steps.callback(self.journal.close, settled)
            steps.callback(self.transport.close)
            steps.callback(self.site.stop)
            steps.callback(self._lookup.stop)


def _check_channel(configuration: Configuration) -> None:
    """A protocol that is made for one channel must have one: without it, it would see orders that differ."""
    if configuration.channel is None:
        raise UsageError(
            f"{configuration.protocol} needs a channel that shows every process the same order: set "
            f'channel = "HOST:PORT" and run `ordercast hub` there'
        )
    if configuration.max_datagram < WHOLE_DATAGRAM:
        raise UsageError(
            f"{configuration.protocol} needs whole datagrams on its channel: leave max_datagram at {WHOLE_DATAGRAM}"
        )
