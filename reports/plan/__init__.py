"""`proofcost plan`: from records to sandbox limits, sandboxes on a host, hosts, and what that costs.

| question | module |
|---|---|
| what was asked | `asked` (`amounts`: percentages, rates, prices as people write them) |
| what the records say | `evidence` (`jobs`: whole verdicts as a fleet sees them) |
| which limits | `limits` |
| how many sandboxes on a host | `host` |
| how many hosts | `fleet` |
| what if | `what_if` |
| would the plan have held | `backtest` |
| how it is told | `page` |
"""
