"""Which fleet is to be made up: how many hosts, kernels, submissions, days and records."""

from __future__ import annotations

from dataclasses import asdict, dataclass

LEAST_SUBMISSIONS = 10
"""So that some are declined, some crash, some are to be rejected, and most are not."""
MOST_FILES = 100_000
"""One for each day and host; looking into the end of each takes every report a millisecond."""
BOUNDS = {
    "records": (1, 10**10),
    "days": (2, 3650),
    "seed": (0, (1 << 63) - 1),
    "classes": (1, 8),
    "hosts": (1, 10_000),
    "kernels": (1, 100),
    "submissions": (LEAST_SUBMISSIONS, 100_000),
}


class FleetError(Exception):
    """No such fleet can be made. One line: which value, why, and what would do."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """One fleet to be made."""

    records: int = 100_000
    days: int = 30
    seed: int = 1
    classes: int = 1
    hosts: int = 10
    kernels: int = 6
    submissions: int = 100

    def __post_init__(self) -> None:
        """Raises FleetError."""
        for name, value in asdict(self).items():
            least, most = BOUNDS[name]
            if not least <= value <= most:
                raise FleetError(f"--{name} {value}: out of range; give a number from {least} to {most}")
        if self.classes > self.hosts:
            raise FleetError(f"--classes {self.classes}: each needs a host, and there are --hosts {self.hosts}")
        if self.submissions < self.hosts:
            raise FleetError(
                f"--submissions {self.submissions}: whole submissions are dealt out every day, so --hosts {self.hosts} "
                "need as many"
            )
        if self.files > MOST_FILES:
            raise FleetError(
                f"--hosts {self.hosts} over --days {self.days} are {self.files} files, one for each day and host; at "
                f"most {MOST_FILES} will do"
            )
        if self.records < self.files:
            raise FleetError(
                f"--records {self.records}: --hosts {self.hosts} over --days {self.days} need one each day, "
                f"{self.files} in all"
            )

    @property
    def files(self) -> int:
        return self.hosts * self.days

    def records_of(self, day: int, host: int) -> int:
        """How many records a host makes on a day: as many as any other, or one more."""
        share, rest = divmod(self.records, self.files)
        return share + (day * self.hosts + host < rest)
