"""The recorder of a simulation and that of a live process take down the same things when they are told the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.core import MessageId, Multicast, Packet, UsageError, encoded_size
from ordercast.core.effects import Activate, Deliver, InstallView, Replay
from ordercast.trace import Run, read_events
from ordercast.trace.interface import SiteTrace, describe
from ordercast.trace.live import LiveRecorder, record_failure
from ordercast.trace.recorder import Recorder

Row = dict[str, Any]


class Carry(Packet, frozen=True):
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Heartbeat(Packet, frozen=True):
    background = True


FIRST, SECOND = (Multicast(MessageId("a", 0, number), ("g",), b"12345", None) for number in (1, 2))


def in_a_simulation(tell: Callable[[SiteTrace], None], folder: Path) -> list[Row]:
    recorder = Recorder("run")
    tell(recorder.site("a", ["g"]))
    return [row for row in recorder.table().to_pylist() if row["site"] == "a"]


def in_a_process(tell: Callable[[SiteTrace], None], folder: Path) -> list[Row]:
    recorder = LiveRecorder(folder, Run("run", groups={"g": ["a", "b"], "h": ["b"]}), "a", 0, lambda: 0.5)
    tell(recorder)
    recorder.close(settled=True)
    return read_events(folder / "a").to_pylist()


def rows_of(tell: Callable[[SiteTrace], None], folder: Path) -> list[Row]:
    """What both have written, which must be the same but for what a process works out itself."""
    simulated, live = in_a_simulation(tell, folder), in_a_process(tell, folder)
    for row in (*simulated, *live):
        for own in ("time", "delivery", "packet_id", "cost"):
            del row[own]
    assert live == simulated
    return live


def test_both_describe_a_packet_that_leaves_and_one_that_arrives_alike(tmp_path: Path) -> None:
    carry, heartbeat = Carry(FIRST), Heartbeat()

    def tell(trace: SiteTrace) -> None:
        trace.send(0.5, "b", describe("a", "main", carry))
        trace.send(0.5, None, describe("a", "main", heartbeat))
        trace.receive(0.5, describe("b", "main", carry))

    named, broadcast, received = rows_of(tell, tmp_path)
    assert (named["kind"], named["peer"], named["packet"], named["messages"]) == ("send", "b", "Carry", ["a:0:1"])
    assert named["size"] == received["size"] == encoded_size(carry)
    assert (broadcast["peer"], broadcast["packet"], broadcast["messages"]) == (None, "Heartbeat", None)
    assert (received["kind"], received["peer"], received["messages"]) == ("receive", "b", ["a:0:1"])


def test_with_both_an_expected_message_is_multicast_before_the_first_packet_that_serves_it(tmp_path: Path) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.expect(FIRST)
        trace.expect(SECOND)
        trace.send(0.5, "b", describe("a", "main", Carry(FIRST)))
        trace.multicast(0.5, SECOND)
        trace.send(0.5, "b", describe("a", "main", Carry(SECOND)))

    kinds = [(row["kind"], row["message"]) for row in rows_of(tell, tmp_path)]
    sent = ("send", None)
    assert kinds == [("multicast", "a:0:1"), sent, ("multicast", "a:0:2"), sent]


def test_both_take_down_deliveries_replays_views_and_recoveries_alike(tmp_path: Path) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.view(0.5, InstallView("v1", ("a", "b"), ("a",), ("g",)))
        trace.deliver(0.5, Deliver(FIRST, (7, 1), "b", "v1", "fast"))
        assert not trace.replay(0.5, Replay(SECOND)), "the crash came before the application had it"
        trace.recover(0.5)

    assert [row["kind"] for row in rows_of(tell, tmp_path)] == ["view", "deliver", "deliver", "recover"]


def test_both_take_down_who_leaves_a_group_and_comes_back_once(tmp_path: Path) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.join(0.5, "g", 0)  # said again after a crash, of a group that was never left
        trace.leave(0.5, "g")
        trace.join(0.5, "g", 7)
        trace.join(0.5, "g", 7)

    left, joined = rows_of(tell, tmp_path)
    assert (left["kind"], left["groups"], left["offset"]) == ("leave", ["g"], None)
    assert (joined["kind"], joined["groups"], joined["offset"]) == ("join", ["g"], 7)


def test_both_take_down_who_joins_a_group_in_which_it_was_not(tmp_path: Path) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.join(0.5, "h", 0)
        trace.activate(0.5, Activate("h", "reliable", "b"))
        trace.activate(0.5, Activate("h", "reliable"))

    joined, of_one, of_all = rows_of(tell, tmp_path)
    assert (joined["kind"], joined["groups"]) == ("join", ["h"])
    assert [(row["groups"], row["service"], row["source"]) for row in (of_one, of_all)] == [
        (["h"], "reliable", "b"),
        (["h"], "reliable", None),
    ]


def test_with_both_a_site_that_declares_itself_failed_is_awake_at_once_and_recovers_when_it_says_so(
    tmp_path: Path,
) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.declare_failed(0.5, 0.2)
        trace.recover(0.5)

    assert [row["kind"] for row in rows_of(tell, tmp_path)] == ["fail", "awake", "recover"]


@pytest.mark.parametrize("seconds", [0.25, 0.75])
@pytest.mark.parametrize("take_down", [in_a_simulation, in_a_process])
def test_nobody_declares_itself_failed_since_before_its_last_row(
    take_down: Callable[[Callable[[SiteTrace], None], Path], list[Row]], seconds: float, tmp_path: Path
) -> None:
    def tell(trace: SiteTrace) -> None:
        trace.leave(0.5, "g")
        trace.declare_failed(0.5, 0.0)
        trace.declare_failed(0.5, seconds)

    assert [row["time"] for row in take_down(tell, tmp_path)] == [0.5] * 5
    alone = take_down(lambda trace: trace.declare_failed(0.5, seconds), tmp_path / "another")
    assert [row["time"] for row in alone] == [0.5 - seconds, 0.5]


@pytest.mark.parametrize("number", [None, 7])
def test_a_packet_has_the_number_that_the_simulated_network_gives_it(number: int | None, tmp_path: Path) -> None:
    envelope = describe("b", "main", Heartbeat())
    (row,) = in_a_simulation(lambda trace: trace.receive(0.5, envelope, number, 1), tmp_path)
    assert (row["packet_id"], row["cost"]) == (None if number is None else "7", 1)


def test_nobody_else_can_read_the_trace_of_a_process(tmp_path: Path) -> None:
    LiveRecorder(tmp_path / "trace", Run("run"), "a", 0, lambda: 0.5).close(settled=True)
    folder = tmp_path / "trace" / "a"
    names = {path.name for path in folder.iterdir()}
    assert {"events.jsonl", "runs.jsonl"} <= names
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_a_trace_that_others_could_read_is_closed_to_them_when_it_goes_on(tmp_path: Path) -> None:
    """Earlier versions made traces with the modes that the umask gave."""
    LiveRecorder(tmp_path, Run("run"), "a", 0, lambda: 0.5).close(settled=True)
    folder = tmp_path / "a"
    (folder / "runs.jsonl.new").touch()
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o755)
    LiveRecorder(tmp_path, Run("run"), "a", 1, lambda: 0.5).close(settled=True)
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_a_link_in_the_place_of_a_trace_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").symlink_to(target)
    with pytest.raises(UsageError, match="cannot hold the trace"):
        LiveRecorder(tmp_path, Run("run"), "a", 0, lambda: 0.5)
    assert target.read_bytes() == b""


# ---------------------------------------------------------------------- a process that was killed
@pytest.mark.parametrize("length", [1, 200_000])
@pytest.mark.parametrize("cut", [0, 7, 100_000])
def test_whoever_kills_a_process_writes_its_failure_behind_the_last_whole_row(
    tmp_path: Path, length: int, cut: int
) -> None:
    killed = LiveRecorder(tmp_path, Run("run", groups={"g": ["a"]}), "a", 0, lambda: 0.5)
    for _ in range(5):
        killed.leave(0.5, "g" * length)
    killed.flush()
    path = tmp_path / "a" / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:cut].replace(b"\n", b" "))
    record_failure(tmp_path, "a")
    assert path.read_bytes().startswith(whole)
    rows = read_events(tmp_path / "a").to_pylist()
    assert [row["kind"] for row in rows][-2:] == ["leave", "fail"]
    assert [row["seq"] for row in rows] == list(range(len(rows)))


def test_nobody_writes_a_failure_into_an_empty_trace(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "events.jsonl"
    path.write_bytes(b'{"run": "cut o')
    record_failure(tmp_path, "a")
    assert path.read_bytes() == b'{"run": "cut o'


# ---------------------------------------------------------------------- a process that comes back with less
def _life(
    folder: Path,
    incarnation: int,
    tell: Callable[[LiveRecorder], None] = lambda _trace: None,
    configured: bool = False,
    refused: bool = False,
    **how: bool,
) -> list[tuple[str, list[str] | None, str | None]]:
    """The rows of all lives so far, after one more of them."""
    run = Run("run", groups={"g": ["a", "b"]} if configured else {})
    recorder = LiveRecorder(folder, run, "a", incarnation, lambda: 0.5, **how)
    tell(recorder)
    recorder.close(not refused, refused)
    return [(row["kind"], row["groups"], row["reason"]) for row in read_events(folder / "a").to_pylist()]


def test_a_process_that_others_have_refused_says_so(tmp_path: Path) -> None:
    _life(tmp_path, 0, lambda trace: trace.recover(0.5))
    rows = _life(tmp_path, 1, refused=True)
    assert rows[1:] == [("fail", None, None), ("awake", None, None), ("fail", None, "refused")]
    assert _life(tmp_path, 2)[4:] == [("awake", None, None)]


def test_a_process_whose_log_is_lost_counts_as_refused_in_its_life_before(tmp_path: Path) -> None:
    _life(tmp_path, 0, lambda trace: trace.recover(0.5))
    record_failure(tmp_path, "a")
    rows = _life(tmp_path, 1, lost=True)
    assert rows[1:] == [("fail", None, None), ("fail", None, "refused"), ("awake", None, None)]


def test_a_process_without_a_log_comes_back_into_no_group_and_has_nothing_to_make_up_for(tmp_path: Path) -> None:
    _life(tmp_path, 0, lambda trace: trace.join(0.5, "h", 3), forgets=True)
    rows = _life(tmp_path, 1, lambda trace: trace.join(0.5, "h", 9), forgets=True)
    assert [kind for kind, _groups, _reason in rows] == ["join", "fail", "awake", "leave", "recover", "join"]


def test_a_process_without_a_log_stays_in_the_groups_of_its_configuration(tmp_path: Path) -> None:
    _life(tmp_path, 0, lambda trace: trace.recover(0.5), configured=True, forgets=True)
    rows = _life(tmp_path, 1, configured=True, forgets=True)
    assert [kind for kind, _groups, _reason in rows] == ["recover", "fail", "awake"]
