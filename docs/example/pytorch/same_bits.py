# SPDX-License-Identifier: Apache-2.0
"""A small transformer whose bits depend neither on the batch nor on who computes what.

Ranks share each layer to compute logits: those of a sequence are the same alone and in a batch of 32.
Ranks share the sequences to train: the weights are the same for any number of ranks.

    capstan run -n 4 -- python3 same_bits.py
"""

import hashlib

import torch
from torch.nn import functional

import capstan as cs

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 50, 64, 4, 2, 16
SHAPES = {"queries": (WIDTH, WIDTH), "keys": (WIDTH, WIDTH), "values": (WIDTH, WIDTH), "mixed": (WIDTH, WIDTH),
          "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}


def share_of(rank, ranks, length):
    return slice(rank * length // ranks, (rank + 1) * length // ranks)


def attention(x, layer, rank, ranks):
    """Returns the share of one rank's heads in what the layer adds to the sequence x."""
    mine = share_of(rank, ranks, WIDTH)
    q, k, v = (
        (x @ layer[name][:, mine]).unflatten(1, (HEADS // ranks, -1)).transpose(0, 1)
        for name in ("queries", "keys", "values")
    )
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return seen.transpose(0, 1).flatten(1) @ layer["mixed"][mine]


def feed_forward(x, layer, rank, ranks):
    mine = share_of(rank, ranks, 4 * WIDTH)
    return functional.gelu(x @ layer["up"][:, mine]) @ layer["down"][mine]


def logits_of(batch, model, rank=0, ranks=1, add_up=lambda partial: partial):
    """A product of matrices may add in another order for another batch, so each sequence has its own."""
    embedding, layers = model
    sequences = [embedding[words] for words in batch]
    for layer in layers:
        for part in (attention, feed_forward):
            partial = [part(functional.layer_norm(x, [WIDTH]), layer, rank, ranks) for x in sequences]
            sequences = [x + y for x, y in zip(sequences, add_up(torch.stack(partial)))]
    return torch.stack([functional.layer_norm(x, [WIDTH]) @ embedding.T for x in sequences])


def new_model():
    random = torch.Generator().manual_seed(1)
    layers = [
        {name: torch.randn(shape, generator=random) / shape[0] ** 0.5 for name, shape in SHAPES.items()}
        for _ in range(LAYERS)
    ]
    return torch.randn(WORDS, WIDTH, generator=random), layers


def parameters_of(model):
    return [model[0], *(weights for layer in model[1] for weights in layer.values())]


def train(world, model, sequences, steps):
    """The gradient of each sequence goes into an exact sum, which is rounded once."""
    parameters = [p.requires_grad_() for p in parameters_of(model)]
    total = torch.zeros(sum(p.numel() for p in parameters))
    sums = cs.Accumulator(total)
    for _ in range(steps):
        for words in sequences[world.rank :: world.size]:
            logits = logits_of([words[:-1]], model)[0]
            gradient = torch.autograd.grad(functional.cross_entropy(logits, words[1:]), parameters)
            sums.add(torch.cat([g.flatten() for g in gradient]))
        sums.all_reduce(world).result(total)
        sums.reset()
        with torch.no_grad():
            for p, g in zip(parameters, total.split([p.numel() for p in parameters])):
                p -= 0.5 / len(sequences) * g.view_as(p)


def digest(tensor):
    return hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest()[:16]


def main():
    torch.set_num_threads(1)
    world = cs.init()
    same = world.with_reproducible("placement")
    sequences = torch.randint(WORDS, (32, LENGTH), generator=torch.Generator().manual_seed(2))

    model = new_model()
    together = logits_of(sequences, model, world.rank, world.size, same.all_reduce)
    for words, expected in zip(sequences, together):
        alone = logits_of([words], model, world.rank, world.size, same.all_reduce)[0]
        assert torch.equal(alone, expected)

    train(world, model, sequences, steps=5)
    weights = torch.cat([p.flatten() for p in parameters_of(model)])
    if world.rank == 0:
        print(f"{world.size} ranks: logits {digest(together)}, weights {digest(weights)}")


main()
