"""Active-set methods that follow a solution: paths over a weight, and the dual of a kernel machine."""
