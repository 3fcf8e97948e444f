"""Beyond the data, on request only and drawn dashed: a generalised Pareto tail over the 90th percentile.

Peaks over threshold (Coles, An Introduction to Statistical Modeling of Extreme Values, chapter 4), by maximum
likelihood. Assumes that the tail which was seen goes on as it began: nothing in the data can confirm that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.sample import Numbers, positive, share

LEAST_EXCEEDANCES = 50


@dataclass(frozen=True, slots=True)
class Tail:
    threshold: float
    share_above: float
    scale: float
    shape: float
    """xi: above 0 heavy, below 0 bounded. scipy calls it c for this distribution, -c for `genextreme`."""
    exceedances: int

    def exceedance(self, amount: float) -> float | None:
        """P(X > amount) for amounts from the threshold up; None below, where the data themselves speak."""
        if amount < self.threshold:
            return None
        from scipy.stats import genpareto

        return self.share_above * float(genpareto.sf(amount - self.threshold, self.shape, scale=self.scale))


def fit_tail(amounts: Numbers, quantile: float = 0.9) -> Tail | None:
    """Of `amounts` above 0, none of them cut by a limit. None with fewer than 50 above the quantile, or all alike."""
    x = np.sort(positive(amounts, "amounts"))
    share(quantile, "quantile")
    if x.size == 0:
        return None
    threshold = float(np.quantile(x, quantile))
    above = x[x > threshold] - threshold
    if above.size < LEAST_EXCEEDANCES or above.min() == above.max():
        return None
    from scipy.stats import genpareto

    unit = float(above.mean())  # the search is poor at bytes
    shape, _, scale = genpareto.fit(above / unit, floc=0)
    return Tail(threshold, above.size / x.size, float(scale) * unit, float(shape), int(above.size))
