"""proofcost: the cost of checking Lean proofs. This file imports nothing: the meter starts through it."""


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name == "load":
        from proofcost.loading import load

        return load
    raise AttributeError(name)
