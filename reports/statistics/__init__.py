"""The statistics behind the reports and the plan: pure functions from numbers to frozen results.

Nothing here reads a record, a clock or a file, and nothing prints. What draws random numbers takes a seed and gives the
same answer for it each time. Bad numbers raise `BadSampleError`; too few of them give a result that says so. No result
ever holds NaN: what is not known is None, with the reason beside it.

Costs (seconds, bytes, counts) are compared on their logarithms, so results are ratios: head
over base, above 1 is dearer.

| question | module |
|---|---|
| is B dearer than A? | `paired`, `unpaired`, `verdict` (`signed_rank`, `rank_sum`: the exact tests they stand on) |
| how many more runs, and at which level? | `run_count`, `levels` |
| one of many came out significant: so what? | `multiplicity` |
| the whole suite in one figure | `suite` |
| since when? | `history` (`change_points`, `autocorrelation`), `counted_steps` for exact counts |
| two hosts | `hardware` (`connected`) |
| can these verdicts be trusted? | `alarm_rate`, `split_half` |
| who wins? | `rank_intervals` |
| how does cost grow with size? | `growth` |
| which limit? | `survival`, `safe_limit`, `time_limit`, `size_limit`, `retry_ladder`, `tail`, `decaying_histogram` |
| how many sandboxes on a host? | `peak_of_sums`, `contention` |
| how many hosts? | `queueing`, `arrivals`, `fleet`, `fleet_size`, `packing` |
"""
