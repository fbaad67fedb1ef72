"""The paper's mechanism: public parameters, two samplers of Algorithm 1, and its release."""
