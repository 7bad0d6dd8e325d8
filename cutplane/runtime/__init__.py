"""Services without mathematics: clocks, deadlines, threads, compilation, errors, optional packages."""
