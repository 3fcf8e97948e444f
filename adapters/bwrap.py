"""bwrap's command line, as far as the meter needs it: the program inside, and what may be written."""

from proofcost.harness.plan import Plan, Sandbox

KIND = "bwrap"
# Options that make a path of the host writable, which is the first word after each.
_WRITABLE = ("--bind", "--bind-try", "--dev-bind", "--dev-bind-try", "--overlay")
_READABLE = ("--ro-bind", "--ro-bind-try")


def read_arguments(arguments: list[str]) -> tuple[Sandbox, list[str]]:
    """(the sandbox, the command inside it); the command is empty when no `--` tells where it starts."""
    sandbox = Sandbox(KIND)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for at in range(end - 1):
        if arguments[at] in _WRITABLE:
            sandbox.writable.append(arguments[at + 1])
        elif arguments[at] in _READABLE:
            sandbox.readable.append(arguments[at + 1])
    return sandbox, arguments[end + 1 :]


def understand(plan: Plan) -> None:
    """Fill in the sandbox and the program in it."""
    plan.sandbox, plan.target = read_arguments(plan.argv[1:])
