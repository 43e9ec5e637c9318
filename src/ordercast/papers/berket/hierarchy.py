"""Chapter 2: thousands of control processes organise themselves, and what each of them hears stays flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.berket.hierarchy_runs import MEASURES, STORIES
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

FEW, MANY = 200, 2000
FLAT = 1.3
"""What a site hears among MANY, at most so many times what it hears among FEW."""
SECONDS_MAX = 180.0
"""Of a processor, for MANY sites."""
TROUBLED_SITES_MAX = 500


def experiment(fast: bool) -> Experiment:
    """10 to 2,000 sites in 1, 5 and 40 regions; faults with up to 500, and once with all of them."""

    def sensible(point: Point) -> bool:
        sites, regions = int(point["sites"]), int(point["regions"])
        if point["story"] == "calm":
            return True
        if fast:
            # One run of 520 simulated seconds with 200 sites takes as long as all with 50.
            return sites < FEW or (regions == 5 and point["story"] == "crash")
        return sites <= TROUBLED_SITES_MAX or (sites == MANY and regions == 40)

    return Experiment(
        name="berket-hierarchy",
        grid={
            "story": STORIES,
            "sites": (10, 50, FEW) if fast else (10, 50, FEW, 500, 1000, MANY),
            "regions": (1, 5, 40),
        },
        function="ordercast.papers.berket.hierarchy_runs:run_story",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1,
        repetitions_max=1,
        where=sensible,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the thesis wants of its hierarchy, in numbers."""
    calm = data[data.story == "calm"]
    found = [
        Check(
            "2.5: the number of coordinators comes to lie within the thresholds, and everyone has its place",
            bool((calm.outside_max == 0).all() and (calm.unsettled_max == 0).all()),
            f"after 120 s in {len(calm)} runs of {calm.sites.min()} to {calm.sites.max()} sites; in "
            f"{calm.regions.max()} regions " + _coordinators(calm),
        ),
        Check(
            "2.5: the hierarchy is stable: nobody changes its state where nothing happens",
            bool((calm.changes_max == 0).all()),
            f"{int(calm.changes.sum())} changes in the 180 s after that",
        ),
        *(_troubled(data[data.story == story], words) for story, words in _TROUBLES.items()),
    ]
    return [*found, *_flat(calm)]


_TROUBLES = {
    "crash": "2.6.3: it heals when three coordinators of ten crash",
    "partition": "2.6: both sides of a partition organise themselves, and become one when they meet again",
}


def _coordinators(calm: pd.DataFrame) -> str:
    rows = calm[calm.regions == calm.regions.max()].sort_values("sites")
    return ", ".join(f"{row.coordinators:g} of {row.sites} ({row.low:g} to {row.high:g})" for row in rows.itertuples())


def _troubled(rows: pd.DataFrame, claim: str) -> Check:
    apart = rows.unsettled_apart_max.fillna(0)
    healed = (rows.outside_max == 0) & (rows.unsettled_max == 0) & (rows.changes_max == 0) & (apart == 0)
    return Check(
        claim,
        bool(healed.all()),
        f"{len(rows)} runs of {rows.sites.min()} to {rows.sites.max()} sites: everyone has its place after "
        f"{rows.healed_after.median():.0f} s in half of them, after {rows.healed_after.max():.0f} s in the slowest; "
        f"{int(rows.changes.sum())} changes in the last minute",
    )


def _flat(calm: pd.DataFrame) -> Iterator[Check]:
    """Only where there are enough sites."""
    by_sites = calm.pivot(index="sites", columns="regions", values="bytes_mean")
    if MANY not in by_sites.index:
        return
    ratio = by_sites.loc[MANY] / by_sites.loc[FEW]
    yield Check(
        f"2: the amount of control information per process does not grow with the system: {MANY:,} sites, at most "
        f"{FLAT} times the bytes of {FEW}",
        bool((ratio <= FLAT).all()),
        ", ".join(
            f"{regions} regions: {by_sites.loc[MANY, regions]:.0f} B/s against {by_sites.loc[FEW, regions]:.0f} "
            f"({value:.2f})"
            for regions, value in ratio.items()
        ),
    )
    many = calm[calm.sites == MANY]
    yield Check(
        f"{MANY:,} sites are simulated for five minutes within three, on one processor",
        bool((many.processor_seconds <= SECONDS_MAX).all()),
        ", ".join(f"{row.regions} regions: {row.processor_seconds:.0f} s" for row in many.itertuples()),
    )


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Coordinators, bytes and healing over the number of sites; a curve for each number of regions."""
    coordinators, heard, healed = figure.subplots(1, 3)
    calm = data[data.story == "calm"].sort_values("sites")
    for (regions, rows), style in zip(calm.groupby("regions"), styles(), strict=False):
        label = f"{regions} regions" if regions > 1 else "1 region"
        coordinators.fill_between(rows.sites, rows.low, rows.high, color=style[0], alpha=0.06, linewidth=0)
        curve(coordinators, rows.sites, rows.coordinators, style, label)
        curve(heard, rows.sites, rows.bytes_mean, style, label)
        curve(heard, rows.sites, rows.bytes_coordinator, style, line=":")
        for story, dash in (("crash", "-"), ("partition", "--")):
            some = data[(data.story == story) & (data.regions == regions)].sort_values("sites")
            curve(healed, some.sites, some.healed_after, style, f"{label}, {story}", dash)
    for axes in (coordinators, heard, healed):
        axes.set_xscale("log")
    coordinators.set_yscale("log")
    heard.set_yscale("log")
    dress(coordinators, "coordinators, and the thresholds", "sites", "coordinators")
    dress(heard, "received by a site on average (dotted: by a coordinator)", "sites", "bytes a second")
    dress(healed, "until everyone has its place again", "sites", "seconds")


ARTEFACT = Artefact(
    name="berket-hierarchy",
    title="Thousands of control processes organise themselves",
    paper="Berket 2000, chapter 2",
    says="""
Control processes organise themselves into local groups with a coordinator each, and the coordinators into one group, so
that control information scales to large numbers of processes; they adapt when processes come, go and fail. The thesis
measures nothing of it: its experiments have up to sixteen processes.
""",
    made="""
`intergroup` without messages: all sites but one are control processes and nothing else. Regions lie on five continents:
1 ms within a region, 15 ms and 8 hops between two of a continent, 80 ms and 24 hops between continents (BOUNDARY_TTL is
16). A control message every 5 s; LOCAL_TARGET_SIZE 40, about the root of 2,000, because what a child hears grows with
the square of its local group, and what a coordinator hears with the square of the number of coordinators; thresholds
from half to one and a half of what that makes. LOW_STATE_CHNG_PARAM and HIGH_STATE_CHNG_PARAM, which the application
sets (2.5), are 5 s and 10 s for up to 200 sites, 10 s and 40 s for more: with longer ones, some coordinators among 50
and 200 sites still change after 120 s. All sites start at once. After 120 s the hierarchy is looked at, and bytes are
counted for the next 180 s (packets as encoded, headers of datagrams not counted). *crash*: three coordinators of ten
crash after 120 s and stay away. *partition*: half of the sites (of the regions, where there are several) are cut off
from 120 to 220 s. Both are looked at every second until 520 s.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(15.0, 4.5),
)
