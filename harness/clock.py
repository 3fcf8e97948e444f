"""The three clocks of a record."""

import time

from proofcost.harness.record import Json


def clocks(at_monotonic_ns: int | None = None) -> dict[str, Json]:
    """Realtime, monotonic (stands still in suspend) and boottime (does not), ns; now, or as they were a moment ago."""
    real, monotonic, boot = time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    ago = 0 if at_monotonic_ns is None else monotonic - at_monotonic_ns
    return {"realtime_ns": real - ago, "monotonic_ns": monotonic - ago, "boottime_ns": boot - ago}
