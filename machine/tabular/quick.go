package tabular

// quickRows are enough rows outside a fold for choices that serve all rows, where Options.Quick asks for less time:
// with fewer, the choices of one part of the rows are too often not those of all.
const quickRows = 160
