"""The machine below the mathematics: clocks, deadlines, threads, compilation, optional packages."""
