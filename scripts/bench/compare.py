"""Two benchmark files side by side: time of each row in both and the ratio. usage: compare.py OURS.json THEIRS.json"""

import json
import sys


def rows(path):
    with open(path) as lines:
        return {row["name"]: row for row in map(json.loads, lines)}


ours, theirs = rows(sys.argv[1]), rows(sys.argv[2])
for name, row in ours.items():
    other = theirs.get(name)
    rate = f"{row['rate']:8.3f} {row['unit']}" if "rate" in row else ""
    ratio = f"{other['seconds'] * 1e3:10.3f} ms  {other['seconds'] / row['seconds']:6.2f} x" if other else ""
    print(f"{name:<44} {row['seconds'] * 1e3:10.3f} ms {rate:<18} {ratio}")
