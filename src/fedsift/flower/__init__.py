"""fedsift on Flower: the only place that imports ``flwr`` (extra ``fedsift[flower]``).

mail        letters over Flower's Grid, with our own polling
server_app  the server's side of a run: the ordinary algorithms on a remote federation
relay       the client's side: hands messages to the site's process
simulated   the client's side in Flower's simulation engine
bundle      the Flower app that a run sends around
keys        a development CA, certificates, node keys
programs    the command lines of Flower's own programs
supervise   keeping them running
deploy      a server, a node with its site
submission  a run started and followed
rehearsal   a whole federation on loopback
"""
