"""fedsift on Flower: the only place that imports ``flwr`` (extra ``fedsift[flower]``).

transport         messages over Flower's Grid, with our own polling
server_app        the server's side of a run: the ordinary algorithms on a remote federation
client_app        the client's side: passes messages to the site's process; travels with a run
relay             the executor that runs it at a site, in one process
compat            Flower's non-public parts that the executor needs, and the versions tested
run_keys, bundle  what a run sends: its keys, and the Flower app
keys              a development CA, certificates, the sites' keys
programs          the command lines of Flower's own programs
supervise         keep them running
deploy            a server; a site's part in a federation
submission        a run started and followed
local_deployment  a whole federation on loopback
"""
