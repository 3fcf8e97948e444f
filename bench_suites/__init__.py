"""Makes records on purpose: workloads, kernels to compare, the runner. Imports harness and adapters, no reports."""
