"""A group of verbs that are imported when they are called: a list of all of them must not take the time of all."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class Verb(NamedTuple):
    """One verb: where it is (``module:attribute``, a function or a group) and the line about it in the list.

    ``example`` stands below the help of a function.
    """

    name: str
    where: str
    says: str
    example: str = ""


def lazy_group(verbs: tuple[Verb, ...], provided: Callable[[], tuple[EntryPoint, ...]]) -> type[TyperGroup]:
    """Return the class of a group with these verbs and those that others provide, which are groups."""

    class LazyGroup(TyperGroup):
        """Knows of each verb its name and its line until it is called."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self._where = {verb.name: verb for verb in verbs}
            for verb in verbs:
                self.commands[verb.name] = TyperCommand(name=verb.name, help=verb.says)
            for point in provided():
                self.commands[point.name] = _group(point.load(), point.name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Put the verb itself in the place of its line."""
            verb = self._where.pop(args[0], None) if args else None
            if verb is not None:
                self.commands[verb.name] = loaded(verb)
            return super().resolve_command(ctx, args)

    return LazyGroup


def loaded(verb: Verb) -> TyperCommand | TyperGroup:
    """Import a verb and return it as the command that it is."""
    made = _at(verb.where)
    if isinstance(made, typer.Typer):
        return _group(made, verb.name)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(verb.name, epilog=verb.example)(made)
    return cast("TyperCommand", get_command(single))


def _at(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _group(app: typer.Typer, name: str) -> TyperGroup:
    group = get_group(app)
    group.name = name
    return group
