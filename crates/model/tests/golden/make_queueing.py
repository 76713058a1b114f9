"""Writes queueing.json beside this file: reference values for the queues without a simple closed form.

    pip install scipy && python make_queueing.py

M/D/1 is the textbook's alternating sum (Erlang 1909) in 300 digits, where it loses none; G/M/1 the root by scipy's brentq.
"""

import json
import pathlib
from decimal import Decimal, getcontext

from scipy.optimize import brentq

getcontext().prec = 300


def m_d_1_wait_tail(rho, t):
    """P(W > t) with a service time of one."""
    rho, t = Decimal(rho), Decimal(t)
    total, factorial = Decimal(0), Decimal(1)
    for i in range(int(t) + 1):
        factorial *= max(i, 1)
        x = rho * (i - t)
        total += (-x).exp() * (x**i if i else 1) / factorial
    return float(1 - (1 - rho) * total)


def gamma_m_1_sigma(rho, burstiness):
    """The root of sigma = A(1 - sigma) below one, with a service time of one."""
    return brentq(lambda s: (1 + (1 - s) / (burstiness * rho)) ** -burstiness - s, 0.0, 1 - 1e-7, xtol=1e-15, rtol=1e-14)


golden = {
    "m_d_1_wait_tail": [
        [float(rho), float(t), m_d_1_wait_tail(rho, t)]
        for rho in ("0.05", "0.5", "0.7", "0.9", "0.95", "0.99")
        for t in ("0", "0.25", "0.999", "1", "1.5", "4", "9.75", "20", "45.5", "80")
    ],
    "gamma_m_1": [
        [rho, b, gamma_m_1_sigma(rho, b)] for rho in (0.1, 0.5, 0.8, 0.9, 0.95) for b in (0.1, 0.3, 0.5, 1.0, 3.0, 10.0)
    ],
}
text = ",\n".join(f" {json.dumps(name)}: {json.dumps(part)}" for name, part in golden.items())
pathlib.Path(__file__).with_name("queueing.json").write_text("{\n" + text + "\n}\n")
