"""Writes golden.json beside this file: reference values from numpy, scipy and exact fractions.

    pip install numpy scipy && python make_golden.py

The committed file was made with the versions it names. Levels are decimal strings, so that ranks are computed
from 0.07 and not from the double nearest to it: numpy itself takes rank 8 of 100 for the inverse CDF at 0.07.
"""

import json
import math
import pathlib
from fractions import Fraction

import numpy
import scipy
from scipy import stats

LEVELS = ["0", "0.01", "0.07", "0.1", "0.25", "0.5", "0.75", "0.9", "0.95", "0.99", "0.999", "1"]
METHODS = ["linear", "inverted_cdf", "averaged_inverted_cdf", "weibull", "median_unbiased"]
rng = numpy.random.default_rng(20240607)


def exact_quantile(values, level, method):
    """Hyndman and Fan's definitions in exact arithmetic."""
    x = [Fraction(v) for v in sorted(values)]
    n, p = len(x), Fraction(level)

    def rank(r):
        return x[min(max(r, 1), n) - 1]

    np_ = n * p
    if method == "inverted_cdf":
        return float(rank(math.ceil(np_)))
    if method == "averaged_inverted_cdf":
        if np_.denominator == 1:
            return float((rank(int(np_)) + rank(int(np_) + 1)) / 2)
        return float(rank(math.ceil(np_)))
    a = {"linear": Fraction(1), "weibull": Fraction(0), "median_unbiased": Fraction(1, 3)}[method]
    position = min(max(np_ + a + p * (1 - 2 * a), 1), n)
    low = math.floor(position)
    return float(rank(low) + (position - low) * (rank(low + 1) - rank(low)))


def quantiles():
    samples = [[42.0], [3.0, 1.0], [10.0, 20.0, 30.0], [-5.0, 0.0, 0.0, 7.0, 7.0]]
    samples += [[round(v, 6) for v in rng.lognormal(3.0, 1.0, n).tolist()] for n in (10, 20, 99, 100, 101, 500)]
    out = []
    for values in samples:
        table = {m: [exact_quantile(values, p, m) for p in LEVELS] for m in METHODS}
        for method in METHODS:
            for level, value in zip(LEVELS, table[method]):
                theirs = float(numpy.quantile(values, float(level), method=method))
                if not math.isclose(theirs, value, rel_tol=1e-12, abs_tol=1e-12):
                    assert "inverted_cdf" in method, (len(values), level, method, theirs, value)
        out.append({"values": values, "quantiles": table})
    return {"levels": [float(p) for p in LEVELS], "samples": out}


def ranks():
    """Largest r with P(B <= r-1) <= a/2 and smallest s with P(B >= s) <= a/2; a tie counts as within."""
    out = []
    for n in (1, 2, 5, 10, 50, 100, 500, 1800, 12345, 1_000_000):
        for p in (0.5, 0.9, 0.95, 0.99, 0.999):
            for confidence in (0.9, 0.95, 0.99):
                tail = (1 - confidence) / 2 * (1 + 1e-12)
                low = int(stats.binom.ppf(tail, n, p))
                high = int(stats.binom.ppf(1 - tail, n, p))
                low = max(r for r in range(max(low - 3, 0), low + 4) if r == 0 or stats.binom.cdf(r - 1, n, p) <= tail)
                high = min(s for s in range(max(high - 3, 0), high + 4) if stats.binom.sf(s - 1, n, p) <= tail)
                out.append([n, p, confidence, low or None, high if high <= n else None])
    return out


def early_stopping():
    """Least n with I_p(n - t, t + 1) <= 1 - c, which is P(Binomial(n, 1-p) <= t)."""
    out = []
    for p in (0.5, 0.75, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999, 0.9999):
        for c in (0.9, 0.95, 0.99):
            for t in (0, 1, 2, 5, 10, 20, 50, 100):
                low, high = t, 10**8
                while high - low > 1:
                    n = (low + high) // 2
                    low, high = (low, n) if scipy.special.betainc(n - t, t + 1, p) <= 1 - c else (n, high)
                out.append([p, c, t, high])
    return out


def binomial_cdf():
    cases = [(10, 0.3, 2), (100, 0.99, 97), (5000, 0.5, 2450), (10**6, 0.99, 989_900), (10**8, 0.01, 1_002_000)]
    return [[n, p, k, float(stats.binom.cdf(k, n, p))] for n, p, k in cases]


def wilson():
    cases = [(0, 1), (1, 1), (0, 20), (20, 20), (3, 10), (45, 50), (362, 1000), (999_000, 1_000_000)]
    return [
        [k, n, c, *map(float, stats.binomtest(k, n).proportion_ci(c, method="wilson"))]
        for k, n in cases
        for c in (0.9, 0.95, 0.99)
    ]


def normal():
    return [[p, float(stats.norm.ppf(p))] for p in (1e-9, 0.001, 0.025, 0.5, 0.8, 0.975, 0.995, 0.999999)]


def student_t():
    quantile = [
        [f, p, float(stats.t.ppf(p, f))] for f in (1, 2, 3, 4, 9, 29, 99, 150, 199, 200, 1000, 100_000) for p in (0.01, 0.9, 0.975, 0.995)
    ]
    mean = []
    for values in ([1.0, 2.0], [9.5, 10.1, 10.4], rng.normal(100, 5, 30).round(4).tolist()):
        for c in (0.9, 0.95, 0.99):
            low, high = stats.t.interval(c, len(values) - 1, numpy.mean(values), stats.sem(values))
            mean.append([values, c, float(low), float(high)])
    return {"quantile": quantile, "mean": mean}


def kolmogorov_smirnov():
    distances = [
        [n, d, float(stats.kstwo.sf(d, n))]
        for n in (1, 2, 5, 10, 50, 100, 101, 140, 500, 5000, 100_000)
        for d in (f / math.sqrt(n) for f in (0.3, 0.5, 0.7, 0.9, 1.1, 1.36, 1.63, 2.0, 2.5))
    ]
    samples = []
    for n in (1, 7, 60, 400):
        values = sorted(rng.exponential(2.0, n).round(6).tolist())
        test = stats.kstest(values, stats.expon(scale=2.0).cdf, mode="exact")
        samples.append({"values": values, "mean": 2.0, "statistic": float(test.statistic), "p_value": float(test.pvalue)})
    return {"distances": distances, "samples": samples}


def laws():
    xs = (0.0, 1e-6, 0.01, 0.5, 1.0, 2.0, 7.5, 40.0)
    return {
        "gamma": [
            [shape, mean, x, float(stats.gamma.cdf(x, shape, scale=mean / shape))]
            for shape in (0.1, 0.5, 1.0, 4.0, 50.0)
            for mean in (0.01, 1.0, 20.0)
            for x in xs
        ],
        "exponential": [[mean, x, float(stats.expon.cdf(x, scale=mean))] for mean in (0.01, 1.0, 20.0) for x in xs],
    }


def series(n, phi):
    x = rng.normal(0, 1, n)
    for i in range(1, n):
        x[i] += phi * x[i - 1]
    return x.round(6)


def autocorrelation():
    out = []
    for n, phi in ((7, 0.5), (64, 0.0), (500, 0.9), (500, -0.5), (3000, 0.6)):
        x = series(n, phi)
        centred = x - x.mean()
        full = numpy.correlate(centred, centred, "full")[n - 1 :]
        rho = full / full[0]
        pairs = 0.0
        for m in range(n // 2):
            gamma = rho[2 * m] + rho[2 * m + 1]
            if gamma <= 0:
                break
            pairs += gamma
        tau = max(2 * pairs - 1, 1.0)
        out.append({"series": x.tolist(), "rho": rho[:20].tolist(), "integrated_time": float(tau)})
    return out


def mser5():
    """By the definition, in quadratic time."""
    out = []
    for n, bump, decay in ((203, 0.0, 1), (400, 30.0, 20), (1000, 8.0, 60), (1500, 50.0, 400)):
        x = (series(n, 0.3) + bump * numpy.exp(-numpy.arange(n) / decay)).round(6)
        z = x[: n // 5 * 5].reshape(-1, 5).mean(axis=1)
        scores = [((z[d:] - z[d:].mean()) ** 2).sum() / (len(z) - d) ** 2 for d in range(len(z) - 4)]
        best = int(numpy.argmin(scores))
        out.append({"series": x.tolist(), "from": best * 5 if best <= len(z) // 2 else None})
    return out


def moments():
    out = []
    for values in ([10.0, 20.0, 30.0], (1e9 + rng.normal(0, 1, 500)).round(5).tolist(), rng.lognormal(0, 2, 1000).round(6).tolist()):
        x = [Fraction(v) for v in values]
        mean = sum(x) / len(x)
        variance = sum((v - mean) ** 2 for v in x) / len(x)
        # The square root in more digits than a double has.
        std = math.isqrt(int(variance * 10**60)) / 10**30
        out.append({"values": values, "mean": float(mean), "std": std})
    return out


def dispersion():
    counts = rng.poisson(4.0, 200).tolist()
    gaps = rng.gamma(0.5, 2.0, 300).round(6).tolist()
    return {
        "counts": counts,
        "index": float(numpy.var(counts, ddof=1) / numpy.mean(counts)),
        "gaps": gaps,
        "cv": float(numpy.std(gaps) / numpy.mean(gaps)),
    }


def renewal_streams():
    """Arrivals with gamma gaps (squared variation c2): the index of their counts and the interval at a level, and the
    distance of their gaps from the law when each gap may be off by a tolerance. A stream of its own, so that the other
    parts stay as they are."""
    own = numpy.random.default_rng(20241130)
    out = []
    for c2, n, level, tolerance in ((1.0, 60, 0.01, 0.0), (1.0, 900, 0.001, 0.05), (0.25, 700, 0.05, 0.1), (4.0, 900, 0.001, 0.02)):
        gaps = own.gamma(1 / c2, c2, n).round(6)
        points = numpy.concatenate(([0.0], numpy.cumsum(gaps))).round(6)
        inner = points[1:-1]
        windows = int(len(inner) / max(math.sqrt(len(inner)), 5 / c2, 10 * c2))
        edges = numpy.linspace(0.0, points[-1], windows + 1)
        counts = numpy.histogram(inner, edges)[0]
        mean = counts.mean()
        expected = c2 + (1 - c2 * c2) / (6 * mean)
        bounds = stats.chi2.ppf([level / 2, 1 - level / 2], windows - 1) / (windows - 1) * expected
        gaps.sort()
        law = stats.gamma(1 / c2, scale=c2).cdf
        below = numpy.arange(n) / n
        distance = max((law(gaps - tolerance) - below).max(), (below + 1 / n - law(gaps + tolerance)).max(), 0.0)
        out.append({
            "points": points.tolist(),
            "squared_cv": c2,
            "level": level,
            "windows": windows,
            "index": float(counts.var(ddof=1) / mean),
            "low": float(bounds[0]),
            "high": float(bounds[1]),
            "gaps": gaps.tolist(),
            "tolerance": tolerance,
            "distance": float(distance),
        })
    return out


golden = {
    "made_with": {"numpy": numpy.__version__, "scipy": scipy.__version__},
    "quantiles": quantiles(),
    "ranks": ranks(),
    "early_stopping": early_stopping(),
    "binomial_cdf": binomial_cdf(),
    "wilson": wilson(),
    "normal": normal(),
    "student_t": student_t(),
    "kolmogorov_smirnov": kolmogorov_smirnov(),
    "laws": laws(),
    "autocorrelation": autocorrelation(),
    "mser5": mser5(),
    "moments": moments(),
    "dispersion": dispersion(),
    "renewal_streams": renewal_streams(),
}
text = ",\n".join(f" {json.dumps(name)}: {json.dumps(part)}" for name, part in golden.items())
pathlib.Path(__file__).with_name("golden.json").write_text("{\n" + text + "\n}\n")
