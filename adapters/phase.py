"""The `phase` entrance: a comparator's measurement command, called as `ADAPTER --phase PHASE -- SANDBOX ARGS...`.

The phase is stored as given. What it is understood to be comes from the program in the sandbox where that says more:
comparators call both the build and the export of a solution `build`.
"""

import os
import sys

from proofcost.adapters import entrance, landrun
from proofcost.harness import meter, policy
from proofcost.harness.plan import UNKNOWN, Plan

# Names that judges give a phase, and ours for it.
_SYNONYMS = {"solution-export": landrun.EXPORT}
USAGE = "usage: --phase PHASE -- COMMAND [ARGUMENT...]"


def split(arguments: list[str]) -> tuple[str | None, list[str], str | None]:
    """(phase, command, what is wrong). The command is what follows the first `--`, empty when there is none."""
    if "--" not in arguments:
        return None, [], f"no `--` among {len(arguments)} arguments"
    at = arguments.index("--")
    own, command = arguments[:at], arguments[at + 1 :]
    if not command:
        return None, [], "nothing after `--`"
    if len(own) == 2 and own[0] == "--phase" and own[1]:
        return own[1], command, None
    return None, command, f"own arguments are {own!r}, expected --phase PHASE"


def understand(plan: Plan) -> None:
    """Fill in what the command and the given phase say."""
    given = plan.phase_given or UNKNOWN
    name = os.path.basename(plan.argv[0])
    first = plan.argv[1].lstrip("-").partition("=")[0] if len(plan.argv) > 1 else ""
    if "bwrap" in name:
        from proofcost.adapters import bwrap

        bwrap.understand(plan)
    elif landrun.KIND in name or (plan.argv[1:2] != [first] and first in landrun.FLAGS):
        landrun.understand(plan)
    else:
        plan.target = plan.argv
        _look_behind_a_wrapper(plan)
        landrun.understand_target(plan)
    seen = plan.phase_understood
    plan.phase_known_by = "hook"
    plan.phase_understood = _SYNONYMS.get(given, given)
    if given == landrun.BUILD and seen == landrun.EXPORT:
        plan.phase_understood = seen
    if given == landrun.CHECKER and plan.kernel_name is None and plan.target:
        plan.kernel_name = landrun.kernel_name(plan.target)
    elif given != landrun.CHECKER:
        plan.kernel_name = plan.kernel_config = None


def _look_behind_a_wrapper(plan: Plan) -> None:
    """`timeout 60 landrun --rwx DIR ...`: what that makes writable must not hold the store either."""
    for at, word in enumerate(plan.argv):
        if word == "--":
            return
        name = os.path.basename(word)
        if landrun.KIND in name:
            inner = landrun.read_arguments(plan.argv[at + 1 :])[0]
        elif "bwrap" in name:
            from proofcost.adapters import bwrap

            inner = bwrap.read_arguments(plan.argv[at + 1 :])[0]
        else:
            continue
        plan.sandbox.writable, plan.sandbox.unrestricted = inner.writable, inner.unrestricted
        plan.sandbox.waits = inner.waits
        return


def main(config: entrance.Config) -> None:
    """Measure the command behind `--`; leaves with its status. 125 when there is no command."""
    inherited = entrance.begin()
    phase, command, wrong = split(sys.argv[1:])
    if not command:
        policy.say(f"{wrong}; {USAGE}; nothing was run")
        entrance.leave(policy.REFUSED)
    entrance.pass_through_if_measured(command, inherited)
    plan = config.plan(command, "phase")
    if wrong is not None:
        entrance.leave(policy.refuse_or_run(plan, inherited, policy.MeterError(f"{wrong}; {USAGE}")))
    plan.phase_given = phase
    entrance.try_to(plan, understand)
    entrance.leave(meter.invoke(plan, inherited))
