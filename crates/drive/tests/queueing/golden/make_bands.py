"""Writes bands.json beside this file: how far the figures of one run of a queue may be from theory by chance.

    pip install numpy && python make_bands.py

Successive requests remember each other, and at high loads a run holds few independent stretches, so an interval that a
run makes for itself is no sharp test. Here each queue is run 500 times by recursions that share nothing with the
program (Lindley's for one server, Kiefer and Wolfowitz' for several), with as many requests as the test has. A band goes
from the least to the largest of the 500 figures; one more run is outside with a probability of 2 in 501.
"""

import json
import pathlib

import numpy as np

RUNS, PART = 500, 50
SERVICE = 0.1
CASES = [
    # name, rate, law, its cv, servers, burstiness, measured requests (a tenth more go before them)
    ["mm1 0.5", 5.0, "exponential", 1.0, 1, 1.0, 20_000],
    ["mm1 0.7", 7.0, "exponential", 1.0, 1, 1.0, 30_000],
    ["mm1 0.8", 8.0, "exponential", 1.0, 1, 1.0, 40_000],
    ["mm1 0.9", 9.0, "exponential", 1.0, 1, 1.0, 60_000],
    ["mm1 0.95", 9.5, "exponential", 1.0, 1, 1.0, 100_000],
    ["md1 0.5", 5.0, "deterministic", 0.0, 1, 1.0, 20_000],
    ["md1 0.9", 9.0, "deterministic", 0.0, 1, 1.0, 40_000],
    ["mg1 gamma", 7.0, "gamma", 2.0, 1, 1.0, 30_000],
    ["mg1 lognormal", 7.0, "lognormal", 2.0, 1, 1.0, 30_000],
    ["mg1 smooth", 7.0, "lognormal", 0.5, 1, 1.0, 20_000],
    ["mmc 2", 18.0, "exponential", 1.0, 2, 1.0, 40_000],
    ["mmc 10", 90.0, "exponential", 1.0, 10, 1.0, 40_000],
    ["gm1 bursty", 9.0, "exponential", 1.0, 1, 0.3, 60_000],
    ["gm1 smooth", 9.0, "exponential", 1.0, 1, 3.0, 40_000],
    ["ggc bursty", 36.0, "gamma", 0.5, 4, 0.3, 40_000],
    ["ggc smooth", 36.0, "gamma", 0.5, 4, 3.0, 40_000],
]


def services(rng, law, cv, shape):
    if law == "deterministic":
        return np.full(shape, SERVICE)
    if law == "lognormal":
        variance = np.log1p(cv * cv)
        return SERVICE * np.exp(rng.normal(-variance / 2, np.sqrt(variance), shape))
    return rng.gamma(1 / cv**2, SERVICE * cv**2, shape)


def waits(service, gap, servers):
    """Waits of each row's requests in the order of arrival."""
    if servers == 1:
        steps = service[:, :-1] - gap[:, 1:]
        walk = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        return walk - np.minimum.accumulate(walk, axis=1)
    work = np.zeros((len(service), servers))
    out = np.empty_like(service)
    for i in range(service.shape[1]):
        if i:
            work = np.maximum(work - gap[:, i : i + 1], 0.0)
        out[:, i] = work[:, 0]
        work[:, 0] += service[:, i]
        work.sort(axis=1)
    return out


def figures(case, rng):
    _, rate, law, cv, servers, burstiness, n = case
    skip = n // 10
    shape = (PART, n + skip)
    service = services(rng, law, cv, shape)
    gap = rng.gamma(burstiness, 1 / (burstiness * rate), shape)
    wait = waits(service, gap, servers)[:, skip:]
    residence = wait + service[:, skip:]
    return {
        "mean_wait": wait.mean(axis=1),
        "p_wait": (wait > 1e-12).mean(axis=1),
        "mean_residence": residence.mean(axis=1),
        "p99_residence": np.quantile(residence, 0.99, axis=1),
        "within_900ms": (residence <= 0.9).mean(axis=1),
    }


def band(case, seed):
    rng = np.random.default_rng(seed)
    parts = [figures(case, rng) for _ in range(RUNS // PART)]
    name, rate, law, cv, servers, burstiness, n = case
    out = {"name": name, "rate": rate, "law": law, "cv": cv, "servers": servers, "burstiness": burstiness, "requests": n}
    for figure in parts[0]:
        values = np.concatenate([part[figure] for part in parts])
        out[figure] = [float(f"{v:.6g}") for v in (values.min(), values.max())]
    print(out, flush=True)
    return out


if __name__ == "__main__":
    bands = [band(case, 20_240_000 + i) for i, case in enumerate(CASES)]
    text = ",\n".join(" " + json.dumps(b) for b in bands)
    pathlib.Path(__file__).with_name("bands.json").write_text("[\n" + text + "\n]\n")
