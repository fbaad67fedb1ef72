"""Gaussian noise on the whole second-moment matrix: Analyze Gauss, calibrated exactly."""
