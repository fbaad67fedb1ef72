"""Private steps that several mechanisms share: each with its parameters, event, proof and words."""
