"""A site of a real federation: a process that loads its data once, answers and remembers.

host       questions in, answers out; the same question twice changes nothing twice
findings   what the site has of a run that ended: the model, the audit of its own labels
journal    the site's memory on disk: state and answers, a file per question
process    the host behind a Unix socket that only its owner can open
sources    where samples and model come from: files or ``module:function``
"""
