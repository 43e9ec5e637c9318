"""Selective total order: what it promises on campaigns, and the rules that the promises rest on."""

from __future__ import annotations

import pytest

from ordercast.campaign import draw_scenario, run_scenario
from ordercast.check import choose, judge
from ordercast.core import Context, MessageId, Multicast, Packet, UsageError, WireError
from ordercast.core.effects import Blocked
from ordercast.core.events import Consumed, Received, Recovered
from ordercast.protocols import find_protocol
from ordercast.protocols.selective_total import SelectiveTotal, SelectiveTotalOptions
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import (
    NO_EPOCH,
    Data,
    Head,
    ReceiveReady,
    Request,
    Reset,
    ResetAck,
    ResetPreAck,
    Restored,
    Retransmission,
)
from ordercast.protocols.selective_total.sorting import Sorting
from ordercast.protocols.selective_total.total_order import TotalOrder
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Loss, Pause, SlowReader
from ordercast.sim.networks import OneChannel as OneChannelNetwork
from ordercast.sim.workload import Workload
from tests.protocols.one_channel import OneChannel

SITES = ("a", "b", "c", "d", "e")
TINY = SelectiveTotalOptions(window_messages=2, buffer_messages=10, buffer_share=1, pending_messages_max=2)


def run(**changes: object) -> Simulation:
    """Five processes, each of which sends to random pairs."""
    options = changes.pop("options", None)
    parameters: dict[str, object] = {
        "options": options,
        "sites": SITES,
        "workloads": [Workload(sources=SITES, destinations=2, rate=20.0, count=40)],
        "duration": 4.0,
        "settle": 20.0,
    }
    network = changes.pop("network", OneChannelNetwork())
    return Simulation(SelectiveTotal, {"g": SITES}, network, **(parameters | changes))  # type: ignore[arg-type]


def broken_claims(simulation: Simulation) -> dict[str, str]:
    simulation.execute()
    verdicts = judge(simulation.header(), simulation.table(), choose(simulation.header().guarantees))
    return {name: str(verdict.first) for name, verdict in verdicts.items() if verdict.verdict == "violated"}


def established(sites: str = "123", options: SelectiveTotalOptions | None = None) -> OneChannel:
    channel = OneChannel(sites, options)
    channel.establish()
    return channel


def of_data(name: str, channel: OneChannel, packet: Packet) -> bool:
    return isinstance(packet, Data) and channel.names[packet.multicast.id] == name


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("selective-total") is SelectiveTotal


# ---------------------------------------------------------------------- under faults
@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5000, 5020))
def test_all_claims_hold_under_any_mixture_of_faults(seed: int) -> None:
    assert run_scenario(draw_scenario(SelectiveTotal, seed)).outcome.violations == ()


@pytest.mark.parametrize("recovery", ["selective", "go-back-n"])
def test_all_claims_hold_where_receivers_are_slower_than_the_channel(recovery: str) -> None:
    """Bursts of several senders overrun the buffers: data, acknowledgements and agreement messages are lost."""
    channel = OneChannelNetwork(frame=0.00001, processing=0.0004, buffers=8)
    simulation = run(
        network=channel,
        options=SelectiveTotalOptions(recovery=recovery),  # type: ignore[arg-type]
        workloads=[Workload(sources=SITES, destinations=3, rate=300.0, count=60)],
    )
    assert broken_claims(simulation) == {}
    assert channel.overruns > 20
    assert simulation.branches["reset"] > 1


def test_all_claims_hold_with_tiny_windows_and_buffers_and_a_slow_reader() -> None:
    simulation = run(options=TINY, faults=[SlowReader(from_=0.0, to=3.0, sites=("b",), seconds=0.2)])
    assert broken_claims(simulation) == {}
    assert simulation.branches["window-closed"]
    assert simulation.branches["receivers-full"]


def test_all_claims_hold_when_a_silent_member_loses_half_of_everything() -> None:
    simulation = run(
        workloads=[Workload(sources=SITES[:2], destinations=3, rate=30.0, count=60)],
        faults=[Loss(from_=0.5, to=3.5, sites=("e",), rate=0.5)],
    )
    assert broken_claims(simulation) == {}


def test_all_claims_hold_when_agreement_messages_are_lost() -> None:
    simulation = run(faults=[Loss(from_=0.5, rate=0.3)])
    assert broken_claims(simulation) == {}
    assert simulation.branches["heard-of-the-end"]


@pytest.mark.parametrize("dead", ["a", "c"])
def test_the_others_go_on_without_a_process_that_crashed(dead: str) -> None:
    simulation = run(faults=[Crash(from_=1.0, sites=(dead,), forever=True), Loss(from_=0.5, rate=0.1)])
    assert broken_claims(simulation) == {}
    rest = tuple(site for site in SITES if site != dead)
    for site in rest:
        cluster = simulation.sites[site].instances["main"].core.cluster  # type: ignore[attr-defined]
        assert cluster.members == rest


def test_a_process_that_comes_back_is_let_in_and_order_holds() -> None:
    """It is owed nothing of what was sent before; what it delivers, it delivers in the same order as the others."""
    simulation = run(faults=[Crash(from_=1.0, to=2.0, sites=("c",))], settle=25.0)
    assert broken_claims(simulation) == {}
    assert simulation.sites["c"].instances["main"].core.cluster.members == SITES  # type: ignore[attr-defined]


def test_a_pause_is_no_crash() -> None:
    simulation = run(faults=[Pause(from_=1.0, to=3.0, sites=("c",))])
    assert broken_claims(simulation) == {}
    assert not simulation.branches["excluded"]


def test_the_sp_service_keeps_its_weaker_claims_without_stopping_anyone() -> None:
    simulation = run(options=SelectiveTotalOptions(service="source"), faults=[Loss(from_=0.2, rate=0.2)])
    assert broken_claims(simulation) == {}
    assert "order-equivalence" not in simulation.header().guarantees
    assert "source-order" in simulation.header().guarantees
    assert sum(row["packet"] == "Request" for row in simulation.table().to_pylist() if row["kind"] == "send") > 10
    assert not simulation.branches["reset"]


# ---------------------------------------------------------------------- section 3
def test_a_message_is_delivered_when_everyone_is_known_to_have_pre_acknowledged_it() -> None:
    channel = established()
    channel.multicast("1", "m", "12")
    channel.run()
    assert channel.delivered["2"] == []
    for site in "123":  # everyone accepts: pre-acknowledged
        channel.fire(site, "acknowledge")
        channel.run()
    core = channel.cores["2"]
    assert core.cluster is not None
    assert core.cluster.accepted_by_all == [2, 1, 1]
    assert channel.delivered["2"] == []
    channel.acknowledge()  # everyone says that it is: acknowledged
    assert channel.delivered == {"1": ["m"], "2": ["m"], "3": []}


def test_a_silent_process_that_is_no_destination_holds_a_message_up() -> None:
    """It may have lost an earlier message of the same source, which then must go before this one elsewhere."""
    channel = established()
    channel.multicast("1", "m", "12")
    channel.run()
    for _ in range(4):
        for site in "12":
            if "acknowledge" in channel.timers[site]:
                channel.fire(site, "acknowledge")
        channel.run()
    assert channel.delivered["2"] == []
    channel.tick(2)
    assert channel.delivered["2"] == ["m"]


def test_the_window_closes_when_not_everyone_has_accepted() -> None:
    channel = established(options=SelectiveTotalOptions(window_messages=2))
    for name in "abcd":
        channel.multicast("1", name, "23")
    assert [type(m) for _, m in channel.frames] == [Data, Data]
    channel.run()
    channel.acknowledge()
    assert channel.delivered["3"] == ["a", "b", "c", "d"]


def test_a_process_without_free_buffers_stops_everyone_until_its_application_takes_something() -> None:
    channel = established(options=SelectiveTotalOptions(buffer_messages=6, buffer_share=1))
    for name in "abcdefgh":
        channel.multicast("1", name, "2")
    channel.tick(3)
    # Each of three processes may have a third of six buffers under way; the application has taken nothing.
    taken = len(channel.delivered["2"])
    assert taken < 8
    core = channel.cores["2"]
    assert core.cluster is not None
    channel.step("2", Consumed(taken))
    channel.tick(3)
    assert len(channel.delivered["2"]) > taken


def test_a_message_that_finds_no_buffer_is_lost_and_comes_again() -> None:
    channel = established(options=SelectiveTotalOptions(buffer_messages=6, buffer_share=1))
    channel.cores["3"].options = SelectiveTotalOptions(buffer_messages=1)
    for source in "12":
        channel.multicast(source, f"m{source}", "123")
    channel.run()
    channel.tick(4)
    assert channel.cores["3"].branches["buffer-full"] == 1
    assert channel.delivered == {site: ["m1", "m2"] for site in "123"}


def test_a_loss_halves_the_window_and_it_grows_again() -> None:
    channel = established(options=SelectiveTotalOptions(window_messages=8))
    channel.multicast("1", "m", "2")
    channel.run(lambda site, message: site == "2" and of_data("m", channel, message))
    channel.tick(3)
    assert channel.cores["1"].transmission.window == 4
    for number in range(40):
        channel.multicast("1", f"n{number}", "2")
        channel.run()
        channel.acknowledge()
    assert channel.cores["1"].transmission.window == 8


# ---------------------------------------------------------------------- section 4
def test_a_message_that_reveals_a_loss_keeps_its_place() -> None:
    channel = established()
    for source, name in (("1", "g"), ("2", "u"), ("1", "r"), ("2", "v")):
        channel.multicast(source, name, "123")
    channel.run(lambda site, message: site == "3" and of_data("g", channel, message))
    again = [m for _, m in channel.heard if isinstance(m, Retransmission)]
    assert len(again) == 1
    assert channel.delivered == {site: ["g", "u", "r", "v"] for site in "123"}


def test_a_sender_can_lose_its_own_message() -> None:
    channel = established()
    channel.multicast("1", "g", "123")
    channel.multicast("2", "u", "123")
    channel.run(lambda site, message: site == "1" and of_data("g", channel, message))
    channel.tick(3)
    assert channel.delivered == {site: ["g", "u"] for site in "123"}


def test_resets_that_start_at_the_same_time_are_one() -> None:
    channel = established()
    for name in "gh":
        channel.multicast("1", name, "123")
    lost = {"2": "g", "3": "g"}
    channel.run(lambda site, m: site in lost and of_data(lost[site], channel, m))
    resets = [(s, m.agreement) for s, m in channel.heard if isinstance(m, Reset) and m.agreement[2]]
    assert len(resets) == 2
    assert len({agreement for _, agreement in resets}) == 1
    assert all(core.branches["resets-merged"] for core in channel.cores.values())
    assert channel.delivered == {site: ["g", "h"] for site in "123"}


@pytest.mark.parametrize("kind", [Reset, ResetPreAck, ResetAck, Retransmission, Restored], ids=lambda k: k.__name__)
def test_an_agreement_survives_the_loss_of_any_of_its_messages(kind: type[Packet]) -> None:
    channel = established()
    for source in "123":
        channel.multicast(source, f"m{source}", "123")
    lost: set[tuple[str, str]] = set()

    def loses(site: str, packet: Packet) -> bool:
        if of_data("m1", channel, packet):
            return site == "3"
        # Each process loses the first one of each sender.
        if isinstance(packet, kind) and packet.agreement[2]:  # type: ignore[attr-defined]
            sender = channel.heard[-1][0]
            first = (site, sender) not in lost
            lost.add((site, sender))
            return first
        return False

    channel.run(loses)
    channel.tick(8, loses)
    assert lost
    orders = {tuple(names) for names in channel.delivered.values()}
    assert len(orders) == 1
    assert set(orders.pop()) == {"m1", "m2", "m3"}


def test_what_someone_has_delivered_keeps_its_place_when_others_sort() -> None:
    """z and w are pre-acknowledged at some, c is lost elsewhere: c goes behind them everywhere."""
    channel = established("1234")
    channel.multicast("1", "w", "12")
    channel.multicast("2", "z", "23")
    channel.run()
    channel.acknowledge()
    assert channel.delivered["3"] == ["z"]
    channel.multicast("4", "c", "13")
    channel.multicast("4", "d", "13")
    channel.run(
        lambda site, m: (site == "3" and of_data("c", channel, m)) or (site == "1" and of_data("d", channel, m))
    )
    channel.tick(3)
    assert channel.delivered["1"] == ["w", "c", "d"]
    assert channel.delivered["3"] == ["z", "c", "d"]


class OpenLine(Sorting):
    """The agreement as printed: nobody looks at what follows the line in another's log."""

    def close_line(self, line: tuple[int, ...]) -> tuple[int, ...]:
        return line


class OnePass(SelectiveTotal):
    """One pass over the logs, and no round more."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sorting = OpenLine(self)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (SelectiveTotal, {"1": ["g", "w"], "2": ["g", "v"], "3": ["w", "v"]}),
        (OnePass, {"1": ["g", "w"], "2": ["v", "g"], "3": ["w", "v"]}),
    ],
)
def test_without_closing_the_line_a_single_loss_can_make_a_cycle(
    protocol: type[SelectiveTotal], expected: dict[str, list[str]]
) -> None:
    """2 loses g and has v; only 1 knows that g comes before w, and only 3 that w comes before v. As printed: g before w
    before v before g."""
    channel = OneChannel("1234", protocol=protocol)
    channel.establish()
    for source, name, destinations in (("4", "g", "12"), ("1", "w", "13"), ("3", "v", "23")):
        channel.multicast(source, name, destinations)
    channel.run(lambda site, message: site == "2" and of_data("g", channel, message))
    channel.tick(3)
    assert {site: channel.delivered[site] for site in "123"} == expected
    assert channel.cores["2"].branches["insertion"] == 1


class PrintedOrder(TotalOrder):
    """3.3 and 3.4 as printed: a message counts as received when its destinations have it."""

    def deliver_acknowledged(self, cluster: Cluster) -> None:
        log = self._core.receipt.log
        while log:
            places = [cluster.place[site] for site in self._core.context.destinations(log[0].data.multicast)]
            if any(cluster.accepted_by[log[0].source][place] <= log[0].tseq for place in places):
                return
            self._core.receipt.deliver_first(cluster)


class DestinationsOnly(SelectiveTotal):
    """Whoever is no destination does not count."""

    def make_order(self) -> TotalOrder:
        return PrintedOrder(self)


@pytest.mark.parametrize("protocol", [SelectiveTotal, DestinationsOnly])
def test_acknowledged_by_its_destinations_alone_a_message_can_be_part_of_a_cycle(
    protocol: type[SelectiveTotal],
) -> None:
    """4 sends g to 1 and 5, q to 1 and 2, m to 2 and 3; 1 sends z to 3 and 5; 5 loses all of 4's. As printed, 3
    delivers m and z, 5 delivers z, and then g comes. The order of 4's messages says g before q at 1, and q before m at
    2."""
    channel = OneChannel("12345", protocol=protocol)
    channel.establish()
    for source, name, destinations in (("4", "g", "15"), ("4", "q", "12"), ("4", "m", "23"), ("1", "z", "35")):
        channel.multicast(source, name, destinations)
    silent = [True]

    def loses(site: str, packet: Packet) -> bool:
        # 4 says nothing more for a while that 5 could hear.
        return site == "5" and (channel.heard[-1][0] == "4") and silent[0]

    channel.run(loses)
    channel.acknowledge(loses)
    assert channel.delivered["5"] == ([] if protocol is SelectiveTotal else ["z"])
    silent[0] = False
    channel.tick(3)
    assert (channel.delivered["1"], channel.delivered["2"]) == (["g", "q"], ["q", "m"])
    if protocol is SelectiveTotal:
        assert channel.delivered["5"] == ["g", "z"]
        assert channel.delivered["3"] == ["m", "z"]
    else:
        assert (channel.delivered["3"], channel.delivered["5"]) == (["m", "z"], ["z", "g"])


def test_go_back_n_sends_everything_again_from_the_loss_on() -> None:
    channel = established(options=SelectiveTotalOptions(recovery="go-back-n"))
    for source, name in (("1", "g"), ("2", "u"), ("1", "r")):
        channel.multicast(source, name, "123")
    begun = channel.cores["1"].epoch

    def loses(site: str, packet: Packet) -> bool:
        return site == "3" and of_data("g", channel, packet) and channel.cores["1"].epoch == begun

    channel.run(loses)
    channel.tick(3)
    sent = [channel.names[m.multicast.id] for _, m in channel.heard if isinstance(m, Data)]
    assert sorted(sent) == sorted("gurgur")
    assert len({tuple(names) for names in channel.delivered.values()}) == 1
    assert sorted(channel.delivered["3"]) == ["g", "r", "u"]


# ---------------------------------------------------------------------- establishment
def test_a_cluster_is_established_when_everyone_is_there() -> None:
    channel = OneChannel()
    channel.down.add("3")
    channel.tick(20)
    assert all(channel.cores[site].cluster is None for site in "12")
    channel.down.clear()
    channel.tick(5)
    assert {core.cluster.members for core in channel.cores.values() if core.cluster} == {("1", "2", "3")}


def test_after_a_long_silence_a_majority_suffices() -> None:
    channel = OneChannel(options=SelectiveTotalOptions(silence_seconds=4.0))
    channel.down.add("3")
    channel.tick(60)
    assert [channel.cores[site].cluster is not None for site in "12"] == [True, True]


def test_a_minority_waits_and_says_for_whom() -> None:
    channel = OneChannel(options=SelectiveTotalOptions(silence_seconds=4.0))
    channel.down.update("23")
    channel.tick(60)
    assert channel.cores["1"].cluster is None
    assert channel.cores["1"].obstacle("agreement") == "no majority: nothing is heard of 2, 3"


def test_what_is_handed_over_before_there_is_a_cluster_waits() -> None:
    channel = OneChannel()
    channel.multicast("1", "m", "123")
    channel.establish()
    assert channel.delivered == {site: ["m"] for site in "123"}


def crash(channel: OneChannel, site: str) -> None:
    channel.down.add(site)
    channel.tick(90)


def test_the_survivors_deliver_what_the_dead_may_have_delivered() -> None:
    channel = established("12345")
    channel.multicast("1", "m", "125")
    channel.run()
    channel.acknowledge(lambda site, message: site in "34" and isinstance(message, ReceiveReady))
    crash(channel, "5")
    assert channel.delivered["1"] == channel.delivered["2"] == ["m"]


def test_a_message_of_the_dead_that_some_have_reaches_the_others() -> None:
    channel = established("12345")
    channel.multicast("5", "m", "123")
    channel.run(lambda site, message: site in "25" and of_data("m", channel, message))
    crash(channel, "5")
    assert [channel.delivered[site] for site in "1234"] == [["m"], ["m"], ["m"], []]
    assert any(core.branches["orphans"] for core in channel.cores.values())


def test_a_message_of_the_dead_that_nobody_has_is_delivered_nowhere() -> None:
    channel = established("12345")
    channel.multicast("5", "m", "123")
    channel.run(lambda site, message: of_data("m", channel, message))
    crash(channel, "5")
    channel.multicast("1", "n", "123")
    channel.tick(3)
    assert [channel.delivered[site] for site in "123"] == [["n"]] * 3


def test_whoever_everyone_was_restored_for_begins_the_epoch_even_if_it_never_heard_of_its_beginning() -> None:
    """5 hears everyone's Restored, begins the epoch, delivers, and crashes; nobody else has heard all of them."""
    channel = established("12345")
    channel.multicast("1", "g", "125")
    channel.multicast("2", "u", "125")

    def loses(site: str, packet: Packet) -> bool:
        if of_data("g", channel, packet):
            return site == "2"
        begun = isinstance(packet, Data | ReceiveReady) and packet.epoch[2] > 0
        return (isinstance(packet, Restored) and packet.agreement[2] > 0 and site != "5") or begun

    channel.run(loses)
    channel.tick(1, loses)
    assert channel.delivered["5"] == ["g", "u"]
    assert channel.delivered["1"] == []
    crash(channel, "5")
    assert channel.delivered["1"] == channel.delivered["2"] == ["g", "u"]
    assert any(core.branches["began-late"] for core in channel.cores.values())


def test_a_process_that_was_taken_for_crashed_notices_and_applies() -> None:
    channel = established("123", SelectiveTotalOptions(silence_seconds=4.0))
    channel.down.add("3")
    channel.tick(60)
    channel.down.clear()
    channel.tick(15)
    assert channel.cores["3"].branches["excluded"] == 1
    assert {core.cluster.members for core in channel.cores.values() if core.cluster} == {("1", "2", "3")}


def test_a_restarted_process_is_a_stranger_and_not_recovered() -> None:
    channel = established()
    channel.cores["3"] = channel._core("3", 1)
    channel.step("3", Recovered())
    channel.tick(6)
    assert {core.cluster.members for core in channel.cores.values() if core.cluster} == {("1", "2", "3")}
    channel.multicast("1", "m", "123")
    channel.tick(3)
    assert channel.delivered["3"] == ["m"]


def test_a_process_that_crashes_and_comes_back_in_the_middle_of_an_agreement_is_new_in_the_next() -> None:
    channel = established()
    channel.multicast("1", "m", "123")
    channel.multicast("3", "n", "12")
    lost = {"2": "m", "1": "n"}

    def loses(site: str, packet: Packet) -> bool:
        stopped = isinstance(packet, ResetAck | Restored) and packet.agreement[2] > 0
        return stopped or (site in lost and of_data(lost[site], channel, packet))

    channel.run(loses)
    channel.fire("1", "acknowledge")
    channel.run(loses)
    assert channel.cores["1"].recovery.agreement is not None
    channel.cores["3"] = channel._core("3", 1)
    channel.step("3", Recovered())
    channel.tick(12)
    assert {core.cluster.members for core in channel.cores.values() if core.cluster} == {("1", "2", "3")}
    assert channel.delivered["1"] == channel.delivered["2"] == ["m", "n"]
    assert channel.delivered["3"] == []


def test_as_in_the_paper_a_cluster_can_be_aborted_when_a_process_crashes() -> None:
    channel = established("123", SelectiveTotalOptions(after_crash="abort", silence_seconds=4.0))
    channel.down.add("3")
    channel.tick(60)
    assert {channel.cores[site].establishment.aborted for site in "12"} == {"3 crashed"}
    with pytest.raises(UsageError, match="aborted"):
        channel.multicast("1", "m", "2")


# ---------------------------------------------------------------------- garbage and misuse
def garbage(core: SelectiveTotal) -> list[tuple[str, Packet]]:
    multicast = Multicast(MessageId("2", 0, 1), (), b"", ("1",))
    three = (1, 1, 1)
    return [
        ("3", Data(core.epoch, 1, three, three, three, 1, multicast)),
        ("2", Data(core.epoch, 1, (1,), three, three, 1, multicast)),
        ("2", Data(core.epoch, 1, three, (9, 1, 1), three, 1, multicast)),
        ("x", ReceiveReady(core.epoch, 1, three, three, three, 1)),
        ("2", Reset((9, "2", 0), ("2", "1"), (0, 0), core.epoch, three, three)),
        ("2", Reset((9, "2", 0), ("1", "x"), (0, 0), core.epoch, three, three)),
        ("2", Reset((9, "2", 0), ("1", "2", "3"), (0, 0), core.epoch, three, three)),
        ("2", Reset((9, "2", 0), ("1", "2", "3"), (0, 0, 0), core.epoch, (1,), (1,))),
        ("2", ResetPreAck((9, "2", 0), ("1", "2"), (0, 0), core.epoch, NO_EPOCH, (), three, three, (1, 1))),
        ("2", Data(core.epoch, 1, three, three, three, 1, Multicast(MessageId("2", 0, 1), ("nobody",)))),
    ]


@pytest.mark.parametrize("which", range(10))
def test_garbage_from_the_network_is_refused(which: int) -> None:
    core = established().cores["1"]
    with pytest.raises(WireError):
        core.step(0.0, Received(*garbage(core)[which]))


def garbage_in_an_agreement(core: SelectiveTotal) -> list[Packet]:
    agreement = core.recovery.agreement
    assert agreement is not None
    epoch, three, none = agreement.identifier, (1, 1, 1), ((), (), ())
    again = Data(core.epoch, 1, three, three, three, 1, Multicast(MessageId("3", 0, 1), (), b"", ("1",)))
    return [
        ResetAck(epoch, 0, three, three, none, three, (), None),
        ResetAck(epoch, 1, three, three, none, (1, 1), (), None),
        ResetAck(epoch, 1, three, three, none, three, ((3, 1),), None),
        ResetAck(epoch, 1, three, three, none, three, (), Head(0, 1, three, (1, 7))),
        ResetAck(epoch, 1, three, three, none, three, (), Head(0, 1, (1,), (1,))),
        Retransmission(epoch, 1, again),
        Retransmission(epoch, 9, again),
        Retransmission(
            epoch, 2, Data(core.epoch, 1, three, three, three, 1, Multicast(again.multicast.id, ("nobody",)))
        ),
    ]


@pytest.mark.parametrize("which", range(8))
def test_garbage_in_an_agreement_is_refused(which: int) -> None:
    core = established().cores["1"]
    core.recovery.start_reset()
    with pytest.raises(WireError):
        core.step(0.0, Received("2", garbage_in_an_agreement(core)[which]))


def test_a_gap_that_nobody_can_have_is_not_asked_for_whole() -> None:
    channel = established(options=SelectiveTotalOptions(service="source", window_messages=8))
    core = channel.cores["1"]
    three = (1, 1, 1)
    channel.step("1", Received("2", ReceiveReady(core.epoch, 1 << 40, (1 << 40, 1, 1), three, three, 1)))
    assert [len(message.missing) for _, message in channel.frames if isinstance(message, Request)] == [8]


@pytest.mark.parametrize(
    "options",
    [{"window_messages": 0}, {"silence_seconds": 1.0}, {"service": "source", "recovery": "go-back-n"}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="options of selective-total"):
        SelectiveTotalOptions(**options)  # type: ignore[arg-type]


def test_blocked_is_said_once() -> None:
    core = established().cores["1"]
    core.say_blocked("why")
    core.say_blocked("why")
    assert core.outbox == [Blocked("agreement", "why")]
