"""What runs beside ours in the benchmarks: other toolkits, in processes of their own."""
