"""The same bilevel problem in fedsift and in four other libraries: lines, time, error.

    python -m benchmarks side-by-side [NAME ...] [--python NAME=PATH ...]

Every library runs in an interpreter of its own, with one thread; ``--python`` says which. A program
is one function in ``with_NAME.py``. What is measured:

| figure | how                                                                                    |
|--------|----------------------------------------------------------------------------------------|
| lines  | statements of the program by ``ast``, without imports and docstrings                   |
| first  | processor time of the first hypergradient, from y = 0, with a relative error of 10⁻³   |
| all    | processor time of all rounds, y kept from one to the next                              |
| error  | relative, of the first hypergradient, against ``problem``'s                            |
| gap    | (h(x_K) − min h) / (h(x_0) − min h) after all rounds; h by ``problem``                 |

Inner steps and products are the fewest of two ladders that reach the error: first the inner
steps, with as many products as there are, then the products.
"""

from benchmarks.side_by_side.driver import main, statements

__all__ = ["main", "statements"]
