"""Reading and writing graphical models: UAI, WCSP, CFN, DIMACS, QPBO and OpenGM files."""
