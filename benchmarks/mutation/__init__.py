"""Small faults put into the sources on purpose, to see which of them the tests notice.

| module      | what                                                                |
|-------------|---------------------------------------------------------------------|
| `guarded`   | the table: which modules, and which tests guard each                |
| `mutants`   | faults of one source file, from its syntax tree                     |
| `trial`     | one fault in a copy of the sources, and what the tests say          |
| `__main__`  | a seeded sample, in two processes, written to results/mutation.json |
"""
