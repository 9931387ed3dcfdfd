package models

// SampleCounts counts the draws of a sampler.
func SampleCounts(logits []float32, g Generate, n int) []int {
	s, counts := newSampler(g), make([]int, len(logits))
	for range n {
		counts[s.next(logits)]++
	}
	return counts
}

// ParseCalibration reads the bytes of a file of calibrate.
var ParseCalibration = parseCalibration
