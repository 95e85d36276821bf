"""Simulated GPUs: the same readers and the same `nvidia-smi`, only the hardware is missing.

A server's cards come from a few words (`4xV100`, `spec.py`); what happens to them from a scenario file (`scenario.py`); who is on
them from the real processes of this machine (`processes.py`). What they look like at an instant is a pure function of these
(`state.py`). Two mouths tell it: an object that stands in for NVIDIA's library below the installed `pynvml` (`library.py`), and a
program named `nvidia-smi` (`smi.py`, written to a folder by `install.py`).

A card's **number** is its place in the order of nvidia-smi while all cards are there; scenarios name cards by it. It never changes,
as the index does when a card vanishes.
"""
