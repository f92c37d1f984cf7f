"""What is wrong: people counted, disparities, intervals, tests and the audit."""
