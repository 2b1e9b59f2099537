"""A client: what happens at a site, and the only code that sees a sample.

actions        the table of everything that a client can be asked
policy         what a site lets a server ask, with a strict default
guard          every request against the policy, and the method's order of requests
state          a client's fixed part and its state
inputs         what an action works with: point, batches, direction
training       local steps
products       compressed Hessian products, sketched systems
outer_step     the client's half of the outer step
single_loop    all three in one exchange
first_order    local steps and the difference of two models on every sample
local_bilevel  one step of all three variables on a minibatch
simfbo         local steps of y and v, and x by all of them
fedbioacc      the same with variance reduction
baselines      what FOCUS, Preprocess and Disagreement ask
rivals         what methods ask that change the loss of single samples
out_of_fold    steps of heads that judge only what they were not trained on
relabelling    FedCorr's relabelling
update         compression of what a client has trained
secure_sum     a masked reply, of which the server sees the sum only
passes         passes over samples in chunks
"""

from fedsift.client.actions import ACTIONS, answer
from fedsift.client.state import Client, ClientState, Shared, initial_state

__all__ = ["ACTIONS", "Client", "ClientState", "Shared", "answer", "initial_state"]
