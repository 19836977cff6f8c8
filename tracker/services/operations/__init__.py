"""Services of operators: backup, restore, doctor, access."""
