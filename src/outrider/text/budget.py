"""How much work one rendering of a chat template may do."""

from __future__ import annotations

import time
from collections.abc import ItemsView, KeysView, ValuesView
from dataclasses import dataclass, field

from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Undefined


class BudgetError(TemplateRuntimeError):
    """A template asked for more work than its budget, or for an operation whose cost can't be bounded."""


@dataclass(slots=True)
class Budget:
    """Work left to one rendering; a unit is an executed node of the template, or a character or element it makes.

    Attributes:
        units: what is left. Everything that a template makes is paid for here, so it bounds the memory too.
        deadline: `time.monotonic()` after which the next payment fails, in seconds.
    """

    units: int
    deadline: float = field(default=float("inf"))

    def spend(self, units: int) -> None:
        """Pay before the work is done. Raises BudgetError when nothing is left."""
        self.units -= units
        if self.units < 0:
            raise BudgetError("it does too much work or makes too much text")
        if time.monotonic() > self.deadline:
            raise BudgetError("it takes too long")

    def spend_on_all(self, value: object, *, data_only: bool = False) -> None:
        """Pay for everything inside a value, once for each time that writing it out would meet it.

        A few nested lists that share their elements are small in memory and endless on paper.

        Args:
            value: any value of the template.
            data_only: whether anything but plain data (strings, numbers, lists, dicts) raises BudgetError.
        """
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                self.spend(1 + len(item))
            elif isinstance(item, dict):
                self.spend(1 + len(item))
                stack.extend(item)
                stack.extend(item.values())
            elif isinstance(item, list | tuple | KeysView | ValuesView | ItemsView):
                self.spend(1 + len(item))
                stack.extend(item)
            elif isinstance(item, range):
                self.spend(1 + len(item))
            elif data_only and not isinstance(item, int | float | Undefined | None):
                raise BudgetError(f"it writes a value of type {type(item).__name__}, which is no data")
            else:
                self.spend(1)
