# SPDX-License-Identifier: Apache-2.0
"""Boosted trees over several ranks. Start it with `capstan run -n 2 -- python3 train.py`, or mpirun."""

import lightgbm as lgb
import numpy as np

import capstan as cs
import capstan_lightgbm

with cs.init() as comm, capstan_lightgbm.network(comm):
    random = np.random.default_rng(comm.rank)  # each rank has rows of its own
    rows = random.random((2000, 10))
    labels = rows[:, 0] * rows[:, 1] + 0.1 * rows[:, 2]
    parameters = {
        "objective": "regression",
        "tree_learner": "data",
        "num_machines": comm.size,
        "pre_partition": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    booster = lgb.train(parameters, lgb.Dataset(rows, labels), num_boost_round=20)

    models = comm.allgather(booster.model_to_string())
    assert all(model == models[0] for model in models)
    error = float(np.mean((booster.predict(rows) - labels) ** 2))
    if comm.rank == 0:
        print(f"{comm.size} ranks, {booster.num_trees()} trees, error {error:.5f}")
