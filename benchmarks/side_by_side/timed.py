"""One library in its own interpreter: solve, time, write. Needs NumPy and that library alone.

python -P timed.py PROGRAM DATA.npz OUT.npz ROUNDS INNER_STEPS PRODUCTS INNER_LR OUTER_LR
"""

import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np


def main(program, data, out, *settings):
    before = time.process_time()
    sys.path.append(str(Path(__file__).parent))
    solve = import_module(program).solve
    imported = time.process_time()
    with np.load(data) as stored:
        samples = dict(stored)
    counts, steps = map(int, settings[:3]), map(float, settings[3:])
    x = solve(samples, *counts, *steps)
    done = time.process_time()
    np.savez(out, x=np.asarray(x), seconds=done - imported, importing=imported - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
