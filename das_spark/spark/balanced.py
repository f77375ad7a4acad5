"""Many columns combined into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Operand = TypeVar("_Operand")


def balanced(operation: Callable[[_Operand, _Operand], _Operand], operands: Sequence[_Operand]) -> _Operand:
    """Combine columns by an associative operation, in their order, as halves of halves.

    A chain is nested as often as there are columns, and Spark plans it slowly.

    Args:
        operation: Such as `operator.add`.
        operands: One at least.
    """
    middle = len(operands) // 2
    if not middle:
        return operands[0]
    return operation(balanced(operation, operands[:middle]), balanced(operation, operands[middle:]))
