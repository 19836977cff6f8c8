"""A program that logs with the client, and writes down what it was through with.

Started with the number of its first row, it goes on until it is killed or has logged
its last one.  Each line that it writes says a key, its labels and how long the calls
took; the line is written once they have returned.
"""

import sys
import time
from pathlib import Path

from tracker_client import Tracker

name, first, last, rate = sys.argv[1], *map(int, sys.argv[2:5])
tracker = Tracker(exit_seconds=0, timeout=3)
door = tracker.detector("door", question="?", classes=["YES", "NO"])
with Path(sys.argv[5]).open("a", buffering=1) as ledger:
    for number in range(first, last):
        key = f"{name}-{number}"
        labels = ["NO", "YES", "UNCLEAR", "NO"][: number % 9 % 5]
        begun = time.perf_counter()
        door.log("YES", key=key, confidence=0.9, metadata={"number": number})
        seconds = [time.perf_counter() - begun]
        for label in labels:
            begun = time.perf_counter()
            door.label(key, label)
            seconds.append(time.perf_counter() - begun)
        ledger.write(f"{key} {','.join(labels)} {max(seconds)}\n")
        time.sleep(1 / rate)
