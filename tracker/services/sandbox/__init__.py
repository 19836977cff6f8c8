"""Reading files from outside in processes of their own."""
