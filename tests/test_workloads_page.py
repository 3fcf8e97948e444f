"""docs/workloads.md says of every family what the family says of itself."""

from pathlib import Path

from proofcost.bench_suites import families
from proofcost.bench_suites.covariates import Reader
from proofcost.bench_suites.families import FAMILIES
from proofcost.bench_suites.families.family import NAT, TEXT, Family

NEEDS = {NAT: "Nat", TEXT: "string"}


def row(family: Family) -> str:
    upto = f" to {family.n_max:,}" if family.n_max else ""
    seeded = "; seed" if family.seeded else ""
    sizes = f"{family.n_min}{upto}; {family.ladder[0]:,} to {family.ladder[-1]:,}{seeded}"
    needs = ", ".join(NEEDS[need] for need in family.needs)
    return f"| `{family.name}` | {family.stresses} | {family.growth} | {family.fault} | {sizes} | {needs} |"


def test_the_table_of_families_is_the_families(repo: Path) -> None:
    expected = [row(family) for family in FAMILIES]
    found = [line for line in (repo / "docs/workloads.md").read_text().splitlines() if line.startswith("| `")]
    told = [line for line in found if not line.startswith("| `export_") and line.count("|") == 7]
    assert told == expected, "\n" + "\n".join(expected)


def test_every_covariate_is_explained(repo: Path) -> None:
    page = (repo / "docs/workloads.md").read_text()
    reader = Reader(depth=True)
    families.generate("church", 8, 0, reader.take)
    figures = reader.end()
    for name in figures.as_record():
        kind = name.removeprefix("export_").removesuffix("_count")
        assert f"`{name}`" in page or kind in figures.kinds or kind in reader.tally.kinds, name
