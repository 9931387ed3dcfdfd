package tabular

import "math"

// leastMemory is the smallest value of Options.Memory: the sample and the blocks of a fit need most of it.
const leastMemory = 64 << 20

// mostRows returns the largest n for which n² elements of the given number of bytes take at most the given share of
// Options.Memory.
func (j *job) mostRows(bytes, part float64) int {
	if j.o.Memory == 0 {
		return math.MaxInt32
	}
	return int(math.Sqrt(part * float64(j.o.Memory) / bytes))
}

// factoredRows is the number of rows up to which a kernel matrix is factored. This takes two matrices of float64.
func (j *job) factoredRows() int { return j.mostRows(16, 0.75) }

// trialRows is the number of rows up to which exact kernels are tried. This takes distances in float64, and for two
// kernels the matrix, its factor and its inverse in float32 or float64.
func (j *job) trialRows() int { return j.mostRows(40, 0.75) }

// iteratedRows is the number of rows up to which conjugate gradients solve the exact kernel. Inputs with some
// copies, leastSketch landmarks and the vectors of the targets may take half of the memory.
func (j *job) iteratedRows() int {
	if j.o.Memory == 0 {
		return math.MaxInt32
	}
	return int(j.o.Memory / 2 / int64(48*j.schema.Width()+4*leastSketch+64*(j.outputs+1)))
}

// leastSketch is the least number of landmarks that precondition an exact kernel.
const leastSketch = 512

// mostFeaturesFor is the number of features up to which the sums of folds and the features of the sample take at
// most two thirds of the memory.
func (j *job) mostFeaturesFor() int {
	if j.o.Memory == 0 {
		return math.MaxInt32
	}
	most := float64(j.o.Memory) * 2 / 3
	a, b := float64(8*(2*j.o.Folds+3)), 16*float64(j.o.Sample)
	return max(2, int((math.Sqrt(b*b+4*a*most)-b)/(2*a)))
}

// sampleCells is the largest number of matrix elements of the sample: at most a quarter of the memory.
func (j *job) sampleCells() int {
	if j.o.Memory == 0 {
		return sampleCells
	}
	return int(min(sampleCells, j.o.Memory/32))
}
