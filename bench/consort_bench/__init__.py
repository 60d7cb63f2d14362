# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the experiments in instruction-counted guests, and makes tables and plots of what they measure."""
