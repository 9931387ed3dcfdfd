package tabular

// quickRows are enough rows outside a fold for choices that serve all rows, where Options.Quick asks for less time:
// with fewer, the choices of one part of the rows are too often not those of all.
const quickRows = 160

// quickSize is the number of rows on which settings for n rows are tried at most, where Options.Quick asks for less
// time.
func quickSize(n int) int {
	if n >= 2*secondRows {
		return secondRows
	}
	return firstRows
}

// fewer is a number of rows, or half of it where Options.Quick asks for less time.
func (j *job) fewer(rows int) int {
	if j.o.Quick {
		return rows / 2
	}
	return rows
}
