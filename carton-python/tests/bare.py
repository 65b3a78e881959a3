"""Calls a model in an environment that has the wheel and nothing else: `python bare.py digits.carton`."""

import sys

import numpy as np

import carton

with carton.load(sys.argv[1]) as model:
    outputs = model(image=np.zeros((3, 1, 8, 8), np.float32))
    report = model.self_test()
probabilities = outputs["probabilities"]
assert probabilities.shape == (3, 10), probabilities.shape
assert np.allclose(probabilities.sum(axis=1), 1), probabilities
assert report.ok and report.passed == 2, report
print(f"Python {sys.version.split()[0]}: ok")
