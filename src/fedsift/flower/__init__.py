"""fedsift on Flower: the only place that imports ``flwr`` (extra ``fedsift[flower]``).

transport         messages over Flower's Grid, with our own polling
server_app        the server's side of a run: the ordinary algorithms on a remote federation
node              a site's side: messages in, the site's process asked, replies out
compat            Flower's non-public parts that both need, and the versions tested
run_keys, bundle  what a run sends: its keys, and the Flower app
keys              a development CA, certificates, the sites' keys
programs          the command lines of Flower's own programs
supervise         keep them running
deploy            a server; a site's part in a federation
submission        a run started and followed
local_deployment  a whole federation on loopback
"""
