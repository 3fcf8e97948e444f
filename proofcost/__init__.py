"""proofcost: the cost of checking Lean proofs. This file imports nothing: the meter starts through it."""
