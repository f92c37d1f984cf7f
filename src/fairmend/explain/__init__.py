"""Why: outcome models, counterfactual distributions, and the features that drive a gap."""
