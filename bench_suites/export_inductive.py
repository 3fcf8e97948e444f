"""An inductive block with its recursors, worked out from the constructors as Lean's kernel does.

Covers what the families need: types in `Type` (or above) that eliminate into every universe, with parameters, mutual or
not, whose recursive fields are values of a type of the block with the same parameters. Not: indices, types in Prop,
nested occurrences, functions into the block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proofcost.bench_suites.export_binders import Binder, Head, Scope, Variable

Arguments = Sequence[Variable]
"""The parameters, then the constructor's fields, of which those before this one may be used."""


@dataclass(frozen=True)
class Field:
    """A constructor's argument: a value of the block's type number `recursive`, else of `type`."""

    name: str
    type: Callable[[Arguments], int] | None = None
    recursive: int | None = None


@dataclass(frozen=True)
class Constructor:
    """`name` is the last part: `cons`."""

    name: str
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Inductive:
    """`name` with its dots; `constructors` in their order."""

    name: str
    constructors: tuple[Constructor, ...]


@dataclass(frozen=True)
class Parameter:
    name: str
    type: Callable[[Arguments], int]


class Block:
    """One `inductive` record. The constructor says what is to be written, `write` writes it.

    `level` is the sort's level (1 for `Type`); `parameters` are shared by all types; `universes` are names.
    `once`: for large blocks, so that memory stays flat; needs that the telescopes of constructors and recursors occur
    nowhere else in the export, and that no two fields of the block are of one recursive type.
    """

    def __init__(
        self,
        scope: Scope,
        types: Sequence[Inductive],
        *,
        level: int,
        universes: Sequence[str] = (),
        parameters: Sequence[Parameter] = (),
        once: bool = False,
    ) -> None:
        self.scope = scope
        self.out = scope.out
        self.types = types
        self.level = level
        self.parameters = parameters
        self.once = once
        self.universes = tuple(self.out.name(name) for name in universes)
        self.levels = tuple(self.out.param(name) for name in self.universes)
        # The recursor's own universe takes the first of these names that the block leaves free.
        free = next(name for name in ("u", "v", "w", "u_rec") if name not in universes)
        self.into = self.out.name(free)
        self.cases = [(of, constructor) for of, type_ in enumerate(types) for constructor in type_.constructors]
        # Binders of a recursor, by the number of binders around each: parameters, motives, minor premises.
        self._motive_at = len(parameters)
        self._minor_at = self._motive_at + len(types)
        self._after_minors = self._minor_at + len(self.cases)
        self._around: list[Head] | None = None

    def _parameter_binders(self) -> list[Binder]:
        arguments = [self.scope.variable(at) for at in range(len(self.parameters))]

        def bound(parameter: Parameter) -> Binder:
            return parameter.name, lambda: parameter.type(arguments)

        return [bound(parameter) for parameter in self.parameters]

    def _of_parameters(self, name: str) -> int:
        """The constant `name` applied to the parameters, which are the outermost binders."""
        constant = self.out.const(self.out.name(name), self.levels)
        return self.out.app(constant, *(self.scope.variable(at)() for at in range(len(self.parameters))))

    def _field_binders(self, constructor: Constructor, start: int) -> list[Binder]:
        """The fields, the first of them standing under `start` binders."""
        arguments = [self.scope.variable(at) for at in range(len(self.parameters))]
        arguments += [self.scope.variable(start + at) for at in range(len(constructor.fields))]

        def bound(field: Field) -> Binder:
            if field.recursive is not None:
                owner = self.types[field.recursive].name
                return field.name, lambda: self._of_parameters(owner)
            type_ = field.type
            assert type_ is not None, f"field {field.name} is neither recursive nor has a type"
            return field.name, lambda: type_(arguments)

        return [bound(field) for field in constructor.fields]

    def _fields(self, constructor: Constructor, start: int) -> list[int]:
        return [self.scope.variable(start + at)() for at in range(len(constructor.fields))]

    def _constructor_type(self, of: int, constructor: Constructor) -> int:
        binders = [*self._parameter_binders(), *self._field_binders(constructor, len(self.parameters))]
        return self.scope.telescope("pi", binders, lambda: self._of_parameters(self.types[of].name), once=self.once)

    def _motive(self, of: int) -> int:
        return self.scope.variable(self._motive_at + of)()

    def _minor_binder(self, at: int) -> Binder:
        """Minor premise number `at`: fields, then what the motive says of each recursive one, then of the whole."""
        of, constructor = self.cases[at]
        start = self._minor_at + at
        name = f"{self.types[of].name}.{constructor.name}"

        def hypothesis(field_at: int, field: Field) -> Binder:
            assert field.recursive is not None
            owner, value = field.recursive, self.scope.variable(start + field_at)
            return f"{field.name}_ih", lambda: self.out.app(self._motive(owner), value())

        def type_() -> int:
            binders = self._field_binders(constructor, start)
            binders += [
                hypothesis(field_at, field)
                for field_at, field in enumerate(constructor.fields)
                if field.recursive is not None
            ]

            def body() -> int:
                whole = self.out.app(self._of_parameters(name), *self._fields(constructor, start))
                return self.out.app(self._motive(of), whole)

            return self.scope.telescope("pi", binders, body, once=self.once)

        return constructor.name, type_

    def _recursor(self, kind: str, more: Sequence[Binder], body: Callable[[], int]) -> int:
        """Parameters, motives, minor premises and `more` around `body`.

        All but `more` stands outermost, so it is the same wherever it occurs: written once, then taken from `_around`.
        """
        scope = self.scope
        if self._around is None:
            self._around = scope.enter(self._recursor_binders())
        else:
            scope.depth += len(self._around)
        heads = [*self._around, *scope.enter(more)]
        return scope.leave(kind, heads, body(), once=self.once)

    def _recursor_binders(self) -> list[Binder]:
        into = self.out.sort(self.out.param(self.into))

        def motive(of: int) -> Binder:
            def type_() -> int:
                return self.scope.pi("t", self._of_parameters(self.types[of].name), lambda _: into)

            return ("motive" if len(self.types) == 1 else f"motive_{of + 1}"), type_

        return [
            *self._parameter_binders(),
            *(motive(of) for of in range(len(self.types))),
            *(self._minor_binder(at) for at in range(len(self.cases))),
        ]

    def _recursor_type(self, of: int) -> int:
        major: Binder = "t", lambda: self._of_parameters(self.types[of].name)

        def body() -> int:
            return self.out.app(self._motive(of), self.scope.variable(self._after_minors)())

        return self._recursor("pi", [major], body)

    def _rule(self, at: int) -> int:
        """What the recursor reduces to on constructor number `at`."""
        _, constructor = self.cases[at]
        levels = (self.out.param(self.into), *self.levels)

        def body() -> int:
            fields = self._fields(constructor, self._after_minors)
            around = [self.scope.variable(place)() for place in range(self._after_minors)]
            again = [
                self.out.app(
                    self.out.const(self.out.name(f"{self.types[field.recursive].name}.rec"), levels),
                    *around,
                    fields[field_at],
                    once=self.once,
                )
                for field_at, field in enumerate(constructor.fields)
                if field.recursive is not None
            ]
            return self.out.app(self.scope.variable(self._minor_at + at)(), *fields, *again)

        return self._recursor("lam", self._field_binders(constructor, self._after_minors), body)

    def write(self, *, misfit: int | None = None) -> None:
        """All that the block's record refers to, then the record.

        `misfit`: the constructor of that number gets the type Prop, which no constructor may have.
        """
        assert self.scope.depth == 0, "an inductive block is closed"
        out, names = self.out, [self.out.name(type_.name) for type_ in self.types]
        sort = out.sort(self.level)
        family = self.scope.telescope("pi", self._parameter_binders(), lambda: sort)
        common = {"levelParams": list(self.universes), "isUnsafe": False, "numParams": len(self.parameters)}
        types: list[dict[str, object]] = []
        constructors: list[dict[str, object]] = []
        recursors: list[dict[str, object]] = []
        rules_of: list[list[dict[str, object]]] = [[] for _ in self.types]
        for of, type_ in enumerate(self.types):
            own = [out.name(f"{type_.name}.{constructor.name}") for constructor in type_.constructors]
            recursive = any(f.recursive is not None for constructor in type_.constructors for f in constructor.fields)
            more = {"name": names[of], "type": family, "all": names, "ctors": own, "isRec": recursive}
            types.append({**common, **more, "isReflexive": False, "numIndices": 0, "numNested": 0})
            for index, constructor in enumerate(type_.constructors):
                spoilt = misfit == len(constructors)
                own_type = out.sort(0) if spoilt else self._constructor_type(of, constructor)
                told = {"name": own[index], "type": own_type, "induct": names[of]}
                constructors.append({**common, **told, "cidx": index, "numFields": len(constructor.fields)})
        for at, (of, constructor) in enumerate(self.cases):
            name = out.name(f"{self.types[of].name}.{constructor.name}")
            rules_of[of].append({"ctor": name, "nfields": len(constructor.fields), "rhs": self._rule(at)})
        for of, type_ in enumerate(self.types):
            counts = {"numIndices": 0, "numMotives": len(self.types), "numMinors": len(self.cases)}
            recursors.append(
                {
                    **common,
                    **counts,
                    "levelParams": [self.into, *self.universes],
                    "name": out.name(f"{type_.name}.rec"),
                    "type": self._recursor_type(of),
                    "all": names,
                    "rules": rules_of[of],
                    "k": False,
                }
            )
        out.inductive({"types": types, "ctors": constructors, "recs": recursors})
