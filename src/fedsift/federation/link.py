"""Messages between the processes of one run, over ``torch.distributed`` with gloo.

A message is a flat mapping ``name -> bytes``, as everywhere; it travels as two tensors: how long it
is, and its bytes after a line of JSON that says where its parts end. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from fedsift.errors import RunError

TIMEOUT = 1800.0  # seconds until a process that is alive but silent ends the run
START = 300.0  # seconds for all processes to start


@dataclass(frozen=True)
class Link:
    """This process's place among those of a run: its number, and how many there are."""

    rank: int
    size: int

    @classmethod
    def join(cls, rank: int, size: int, *, start: float = START, timeout: float = TIMEOUT) -> Link:
        """Meet the other processes at MASTER_ADDR and MASTER_PORT."""
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        try:
            meeting = rendezvous("env://", rank, size, timeout=timedelta(seconds=start))
            store, *_ = next(meeting)
            dist.init_process_group(
                "gloo",
                store=store,
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=timeout),
            )
        except (RuntimeError, ValueError) as error:
            raise RunError(
                f"the {size} processes of the run did not meet at {where} within {start:g} s "
                f"({_first_line(error)}); start it again, with fewer processes if memory is short"
            ) from None
        return cls(rank, size)

    def leave(self) -> None:
        """Close the connections."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def send(self, to: int, parts: Mapping[str, bytes]) -> None:
        """Send a message."""
        header = json.dumps([[name, len(data)] for name, data in parts.items()]).encode() + b"\n"
        whole = bytearray(b"".join((header, *parts.values())))
        try:
            dist.send(torch.tensor([len(whole), len(header)]), to)
            dist.send(torch.frombuffer(whole, dtype=torch.uint8), to)
        except RuntimeError as error:
            raise self._lost(to, error) from None

    def receive(self, source: int) -> dict[str, bytes]:
        """Wait for the next message of a process."""
        sizes = torch.zeros(2, dtype=torch.int64)
        try:
            dist.recv(sizes, source)
            total, head = sizes.tolist()
            whole = torch.empty(total, dtype=torch.uint8)
            dist.recv(whole, source)
        except RuntimeError as error:
            raise self._lost(source, error) from None
        data, parts, start = whole.numpy().tobytes(), {}, head
        for name, length in json.loads(data[:head]):
            parts[name] = data[start : start + length]
            start += length
        return parts

    def _lost(self, rank: int, error: RuntimeError) -> RunError:
        return RunError(
            f"process {rank} of {self.size} ended or is silent ({_first_line(error)}); look at its "
            "messages, then continue with --resume"
        )


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][-120:] if text else type(error).__name__
