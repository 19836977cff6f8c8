"""How soon a drop is noticed: the drift alarm beside a CUSUM and river's ADWIN.

Each watch sees the same labels: at the reference accuracy first, and then after a drop.
The CUSUM knows to what the accuracy drops, and its threshold is found by simulation;
the alarm needs neither.  ADWIN comes from the dependency group `bench`, which is not
installed by default.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from tracker.stats import ClassWatch

try:
    from river.drift import ADWIN
except ImportError:
    ADWIN = None

REFERENCE = 0.95
BEFORE = 1000
MOST = 6000
DROPS = (0.93, 0.90, 0.85)

Watch = Callable[[bool], bool]


def alarm() -> Watch:
    watch = ClassWatch([REFERENCE])
    return lambda is_right: watch.add(0, is_right) is not None


def lifetime_alarm() -> Watch:
    watch = ClassWatch([REFERENCE], ever=0.05)
    return lambda is_right: watch.add(0, is_right) is not None


def cusum(threshold: float) -> Callable[[], Watch]:
    """Return a CUSUM that knows of a drop to 90 %."""
    steps = math.log(0.1 / (1 - REFERENCE)), math.log(0.9 / REFERENCE)

    def build() -> Watch:
        total = 0.0

        def add(is_right: bool) -> bool:
            nonlocal total
            total = max(total + steps[is_right], 0.0)
            return total >= threshold

        return add

    return build


def adwin() -> Watch:
    watch = ADWIN(delta=0.002)

    def add(is_right: bool) -> bool:
        before = watch.estimation
        watch.update(int(is_right))
        return bool(watch.drift_detected and watch.estimation < before)

    return add


def simulated_threshold(run: int, runs: int) -> float:
    """Return the threshold at which a CUSUM runs so long on average, by halving."""
    low, high = 1.0, 10.0
    for _ in range(8):
        middle = (low + high) / 2
        rng = np.random.default_rng(1)
        lengths = [run_length(cusum(middle)(), rng, 20 * run) for _ in range(runs)]
        low, high = (middle, high) if np.mean(lengths) < run else (low, middle)
    return high


def run_length(watch: Watch, rng: np.random.Generator, most: int) -> int:
    for number in range(most):
        if watch(bool(rng.random() < REFERENCE)):
            return number + 1
    return most


def delays(build: Callable[[], Watch], after: float, runs: int) -> list[int]:
    rng, found = np.random.default_rng(2), []
    while len(found) < runs:
        watch = build()
        if any(watch(x) for x in (rng.random(BEFORE) < REFERENCE).tolist()):
            continue
        dropped = (rng.random(MOST) < after).tolist()
        found.append(next((i for i, x in enumerate(dropped, 1) if watch(x)), MOST))
    return found


def microseconds(build: Callable[[], Watch], labels: int = 20_000) -> float:
    watch = build()
    stream = (np.random.default_rng(3).random(labels) < REFERENCE).tolist()
    start = time.perf_counter()
    for is_right in stream:
        watch(is_right)
    return (time.perf_counter() - start) / labels * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    runs = 20 if arguments.quick else arguments.runs
    mean_run = 1000 if arguments.quick else 10_000
    threshold = simulated_threshold(mean_run, 40)
    watches: dict[str, Callable[[], Watch]] = {
        "alarm, mean run 10,000 guaranteed": alarm,
        "alarm, ever false in at most 5 %": lifetime_alarm,
        f"CUSUM for 90 %, run of {mean_run:,} simulated": cusum(threshold),
    }
    if ADWIN is None:
        print("ADWIN is left out: install the dependency group bench for it.\n")
    else:
        watches["ADWIN, delta 0.002"] = adwin
    print(f"Labels from a drop from {REFERENCE:.0%} to the alarm: mean (90 % within)\n")
    heads = "".join(f"{f'to {drop:.0%}':>20}" for drop in DROPS)
    print(f"{'':42}{heads}{'us a label':>12}")
    for name, build in watches.items():
        cells = ""
        for drop in DROPS:
            found = delays(build, drop, runs)
            late = sum(delay == MOST for delay in found) / len(found)
            shown = f"{np.mean(found):,.0f} ({np.quantile(found, 0.9):,.0f})"
            cells += f"{shown if late < 0.05 else f'{late:.0%} never':>20}"
        print(f"{name:42}{cells}{microseconds(build):>12.1f}", flush=True)


if __name__ == "__main__":
    main()
