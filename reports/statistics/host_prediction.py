"""R6: what a work would cost on a host class that it never ran on, from where it did run and the hosts' factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proofcost.reports.statistics.comparison import ratio_of_logs
from proofcost.reports.statistics.hardware import HardwareModel, t_quantile
from proofcost.reports.statistics.sample import BadSampleError, Numbers, positive


@dataclass(frozen=True, slots=True)
class Prediction:
    cost: float
    """Median of a single run there; unit of the costs given."""
    low: float | None
    high: float | None
    """Where a single run will lie, with the model's confidence; None where the model has too few submissions, or no
    residual to judge the noise by."""


def predict_cost(
    model: HardwareModel, measured: Mapping[str, Numbers], host: str, interaction_spread: float = 0.0
) -> Prediction:
    """Of one work on `host`, `measured` being its costs (above 0) by host. `interaction_spread`: `Interaction.spread`,
    where the kernels' factors differ: this kernel's own factor is then less sure.

    Raises BadSampleError for an unknown host, or nothing measured.
    """
    names = [factor.host for factor in model.factors]
    to = names.index(model.factor(host).host)
    logs, weights = [], np.zeros(len(names))
    for name, costs in measured.items():
        values = np.log(positive(costs, f"measured on {name}"))
        logs += (values - math.log(model.factor(name).ratio)).tolist()
        weights[names.index(name)] += values.size
    if not logs:
        raise BadSampleError("measured: nothing, so there is nothing to carry over")
    n = len(logs)
    middle = math.fsum(logs) / n + math.log(model.factors[to].ratio)
    quantile = t_quantile(model.confidence, model.clusters)
    if quantile is None or model.residual is None:
        return Prediction(ratio_of_logs(middle), None, None)
    contrast = -weights / n
    contrast[to] += 1
    of_factors = float(contrast @ model.covariance @ contrast)
    elsewhere = float(n - weights[to]) / n  # nothing is carried over from the host itself
    variance = model.residual**2 * (1 + 1 / n) + max(0.0, of_factors) + (elsewhere * interaction_spread) ** 2
    half = quantile * math.sqrt(variance)
    return Prediction(ratio_of_logs(middle), ratio_of_logs(middle - half), ratio_of_logs(middle + half))
