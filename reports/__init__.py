"""Reads records: cells, statistics, comparisons, pages. Imports harness only."""
