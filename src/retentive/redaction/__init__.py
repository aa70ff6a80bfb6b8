"""What every write passes before it is recorded. Pure: a guard looks at texts and answers, it stores nothing."""
