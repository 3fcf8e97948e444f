"""Versions that travel in every record."""

VERSION = "0.1.0"
SCHEMA = 1
# Raised whenever a figure keeps its name and changes its meaning; part of the key of any series.
METRIC_DEFINITIONS = 1
