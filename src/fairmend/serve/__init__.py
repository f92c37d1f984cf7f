"""The sidecar: a repaired model in production, in front of the vendor's address."""
