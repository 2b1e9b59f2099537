"""A site of a real federation: a process that loads its data once and replies to requests.

host       requests in, replies out; a repeated request changes nothing a second time
run        one run at a site: settings, model, client, journal
ledger     what was asked so far, which runs began and which the owner approved; never taken back
question_log  every question with its time and sizes, in plain text
result     what the site has of a finished run: the model, the audit of its own labels
journal    the site's state and replies on disk, one file per request
process    the host behind a Unix socket that only its owner can open
sources    where samples and model come from: files or ``module:function``
"""
