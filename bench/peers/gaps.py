"""The law of the gaps between arrivals: are they those of a Poisson process, whatever its rate? Standard library only.

Coefficient of variation, and the Kolmogorov-Smirnov distance from the exponential law whose mean is the sample's. The mean is
estimated, so the tables of the plain test do not hold; the modified statistic and its 1 % point are those of M. A. Stephens,
"EDF Statistics for Goodness of Fit and Some Comparisons", JASA 69 (1974), case of the exponential with unknown mean.
"""

import math
import statistics

# At 1 %: one run in a hundred of a true Poisson process fails.
STEPHENS_1_PERCENT = 1.308
LEAST = 100


def law(instants_ns):
    """Law of the gaps of arrivals in any order: `cv`, `ks`, and `poisson`, whether they pass. None for too few."""
    ordered = sorted(instants_ns)
    found = [(b - a) / 1e9 for a, b in zip(ordered, ordered[1:], strict=False)]
    if len(found) < LEAST:
        return None
    mean = statistics.fmean(found)
    distance = distance_from_exponential(found, mean)
    root = math.sqrt(len(found))
    modified = (distance - 0.2 / len(found)) * (root + 0.26 + 0.5 / root)
    return {"cv": statistics.pstdev(found, mean) / mean, "ks": distance, "poisson": modified < STEPHENS_1_PERCENT}


def distance_from_exponential(values, mean):
    """Largest difference between the empirical distribution and the exponential one with this mean."""
    n, worst = len(values), 0.0
    for i, value in enumerate(sorted(values)):
        expected = 1 - math.exp(-value / mean)
        worst = max(worst, expected - i / n, (i + 1) / n - expected)
    return worst
