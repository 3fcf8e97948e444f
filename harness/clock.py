"""The three clocks of a record."""

import time

from proofcost.harness.record import Json


def clocks() -> dict[str, Json]:
    """Realtime, monotonic (stands still in suspend) and boottime (does not), ns."""
    return {
        "realtime_ns": time.time_ns(),
        "monotonic_ns": time.monotonic_ns(),
        "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    }
