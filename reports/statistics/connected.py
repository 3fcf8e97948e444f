"""Which hosts are connected through shared cells: only between those is there anything to compare. Union-find."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Cell = TypeVar("Cell", bound=Hashable)
Host = TypeVar("Host", bound=Hashable)


def connected_hosts(pairs: Iterable[tuple[Cell, Host]]) -> tuple[tuple[Host, ...], ...]:
    """Groups of hosts, two being in one group if a chain of cells measured on both leads from one to the other.

    `pairs`: (cell, host) of every measurement, in any order. Groups and their hosts stand in order of first appearance.
    """
    parent: dict[Host, Host] = {}
    first_host: dict[Cell, Host] = {}

    def root(host: Host) -> Host:
        while parent[host] != host:
            parent[host] = parent[parent[host]]
            host = parent[host]
        return host

    for cell, host in pairs:
        parent.setdefault(host, host)
        a, b = root(host), root(first_host.setdefault(cell, host))
        if a != b:
            parent[a] = b
    groups: dict[Host, list[Host]] = {}
    for host in parent:
        groups.setdefault(root(host), []).append(host)
    return tuple(tuple(group) for group in groups.values())
