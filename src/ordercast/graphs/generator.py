"""The PG generator (Spauster 3.3, Appendix I): from groups to a forest.

Read with its misprints corrected: the closure step says "s in g"; the most frequent site is sought among the
intersecters of a partition and counted within the partition; children outside every partition are marked too. Sites
in no group are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ordercast.core import GroupId, SiteId
from ordercast.graphs.choice import WHOLE_PARTITION, Heuristic, Situation, Ties, make_choice
from ordercast.graphs.graph import Graph, Groups
from ordercast.graphs.topology import Topology


def generate(
    groups: Groups,
    heuristic: Heuristic = "most-groups",
    ties: Ties | None = None,
    topology: Topology | None = None,
) -> Graph:
    """The propagation graph of these groups (see `read_groups`)."""
    return _Generator(groups, heuristic, ties or Ties(), topology).run()


class _Generator:
    """Sites and groups are numbers here, in the order of their names: ten thousand sites are searched again at each
    level."""

    def __init__(self, groups: Groups, heuristic: Heuristic, ties: Ties, topology: Topology | None) -> None:
        self._groups = groups
        self._names: list[SiteId] = sorted({site for members in groups.values() for site in members})
        number = {name: at for at, name in enumerate(self._names)}
        self._group_names: list[GroupId] = list(groups)
        self._members = [[number[site] for site in groups[group]] for group in self._group_names]
        self._groups_of: list[list[int]] = [[] for _ in self._names]
        for group, members in enumerate(self._members):
            for site in members:
                self._groups_of[site].append(group)
        self._degree = [len(mine) for mine in self._groups_of]
        self._choose = make_choice(heuristic, self._names, self._degree, ties, topology)
        self._whole_partitions = heuristic in WHOLE_PARTITION
        self._parent: dict[SiteId, SiteId | None] = {}
        self._primary: dict[GroupId, SiteId] = {}
        self._group_marked = [False] * len(self._members)
        # Search number in which a group, or a site, was last found: to begin a search costs nothing.
        self._search = 0
        self._group_found = [0] * len(self._members)
        self._site_found = [0] * len(self._names)

    def run(self) -> Graph:
        """The main program: a tree for each set of groups that hang together."""
        trees = [
            (self._choose(Situation(None, partition, partition)), partition)
            for partition in self._partition(range(len(self._names)))
        ]
        # The appendix takes the most frequent site of all first; which tree comes first changes none of them.
        trees.sort(key=lambda tree: (-self._degree[tree[0]], tree[0]))
        for root, _ in trees:
            self._grow(root)
        return Graph(self._groups, self._parent, {group: self._primary[group] for group in self._groups})

    def _grow(self, root: int) -> None:
        """new_subtree, with a stack instead of recursion: a tree can be thousands of sites deep."""
        names, degree = self._names, self._degree
        todo: list[tuple[int, int | None]] = [(root, None)]
        while todo:
            subroot, parent = todo.pop()
            self._parent[names[subroot]] = None if parent is None else names[parent]
            intersecters = self._mark_groups(subroot)
            chosen = [self._choose(situation) for situation in self._situations(subroot, intersecters)]
            # Reversed, so that the first partition's subtree is grown first, as the recursion would.
            todo.extend((site, subroot) for site in reversed(chosen))
            for site in intersecters:
                if not degree[site]:
                    self._parent[names[site]] = names[subroot]

    def _situations(self, subroot: int, intersecters: list[int]) -> list[Situation]:
        """Of each partition below the subroot."""
        if not self._whole_partitions:
            return [Situation(subroot, (), sites) for sites in self._separate(intersecters)]
        sharing = frozenset(intersecters)
        return [
            Situation(subroot, partition, [site for site in partition if site in sharing])
            for partition in self._partition(intersecters)
        ]

    def _mark_groups(self, subroot: int) -> list[int]:
        """The subroot is the primary destination of its groups that have none yet; the other sites in them."""
        intersecters: dict[int, None] = {}
        degree = self._degree
        for group in self._groups_of[subroot]:
            if self._group_marked[group]:
                continue
            self._group_marked[group] = True
            self._primary[self._group_names[group]] = self._names[subroot]
            for site in self._members[group]:
                degree[site] -= 1
                intersecters[site] = None
        intersecters.pop(subroot, None)
        # An unmarked group has no site that is placed: that site would be its primary destination.
        return sorted(intersecters)

    def _partition(self, sites: Sequence[int]) -> list[list[int]]:
        """The sites of the unmarked groups that hang together with any of these, one list for each set of groups."""
        self._search = search = self._search + 1
        group_found, site_found, marked = self._group_found, self._site_found, self._group_marked
        groups_of, members, degree = self._groups_of, self._members, self._degree
        partitions = []
        for start in sites:
            if site_found[start] == search or not degree[start]:
                continue
            site_found[start] = search
            partition = [start]
            for site in partition:  # it grows meanwhile
                for group in groups_of[site]:
                    if group_found[group] != search and not marked[group]:
                        group_found[group] = search
                        for other in members[group]:
                            if site_found[other] != search:
                                site_found[other] = search
                                partition.append(other)
            partitions.append(partition)
        return partitions

    def _separate(self, sites: Sequence[int]) -> list[list[int]]:
        """Those of these sites that are in a partition, one list for each partition; nothing else of it is looked at.

        Searches from all of them advance in turns, and the last one that is left need not be finished: mostly one
        partition is huge and the others are tiny. (Found in full at each of a thousand levels, ten thousand sites
        take five seconds.)
        """
        self._search = search = self._search + 1
        group_found, marked, members = self._group_found, self._group_marked, self._members
        starts = [site for site in sites if self._degree[site]]
        owner = {site: number for number, site in enumerate(starts)}
        found = [[site] for site in starts]
        taken = [0] * len(starts)
        merged_into = list(range(len(starts)))
        unfinished = len(starts)
        turns = deque(range(len(starts)))
        while unfinished > 1:
            mine = turns.popleft()
            if merged_into[mine] != mine:
                continue
            if taken[mine] == len(found[mine]):
                unfinished -= 1
                continue
            site = found[mine][taken[mine]]
            taken[mine] += 1
            for group in self._groups_of[site]:
                if group_found[group] == search or marked[group]:
                    continue
                group_found[group] = search
                for other in members[group]:
                    if other not in owner:
                        owner[other] = mine
                        found[mine].append(other)
                    elif (met := _last(merged_into, owner[other])) != mine:
                        merged_into[met] = mine
                        found[mine].extend(found[met][taken[met] :])
                        unfinished -= 1
            turns.append(mine)
        partitions: dict[int, list[int]] = {}
        for number, site in enumerate(starts):
            partitions.setdefault(_last(merged_into, number), []).append(site)
        return list(partitions.values())


def _last(merged_into: list[int], number: int) -> int:
    """Whose search it is now; the way there is made shorter for the next time."""
    while merged_into[number] != number:
        merged_into[number] = number = merged_into[merged_into[number]]
    return number
