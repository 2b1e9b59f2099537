"""What we add to the paper's algorithms; each can be switched off by its key.

constants    every constant of these parts, with the reason for its value
head_start   steps on the clean set before round 0
self_paced   a falling outer step, and weights that are pulled towards the model's predictions

The fourth addition, bootstrapping, is part of the loss: ``problem.bootstrap``.
"""
