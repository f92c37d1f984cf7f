"""What is wrong: people counted, disparities, intervals, tests and the audit."""

from fairmend.measure import metrics as metrics  # declares fairmend's own metrics
