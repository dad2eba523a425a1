"""Small agents in plain Python: `clean` has no fault, every class of the other modules has one, told by its docstring.

`python -S -E FOLDER` runs the clean agent, `python -S -E FOLDER GROUP/NAME` the faulty one of that name. A fault is in
the group of the rule that it breaks. They import one another by bare names: the folder is a program, not a library.
"""
