package gguf

import "math"

// String is a text of the metadata; empty if there is none.
func (f *File) String(key string) string {
	s, _ := f.values[key].(string)
	return s
}

// Int is a whole number of the metadata.
func (f *File) Int(key string) (int, bool) {
	switch v := f.values[key].(type) {
	case int64:
		return int(v), true
	case uint64:
		return int(v), v <= math.MaxInt
	}
	return 0, false
}

// Float is a number of the metadata.
func (f *File) Float(key string) (float64, bool) {
	if v, ok := f.values[key].(float64); ok {
		return v, true
	}
	i, ok := f.Int(key)
	return float64(i), ok
}

// Bool is a truth value of the metadata; ok is false if there is none.
func (f *File) Bool(key string) (v, ok bool) {
	v, ok = f.values[key].(bool)
	return v, ok
}

// Strings is an array of texts of the metadata, nil if there is none.
func (f *File) Strings(key string) []string {
	v, _ := f.values[key].([]string)
	return v
}

// Ints is an array of whole numbers of the metadata, nil if there is none.
func (f *File) Ints(key string) []int64 {
	v, _ := f.values[key].([]int64)
	return v
}

// Floats is an array of numbers of the metadata, nil if there is none.
func (f *File) Floats(key string) []float64 {
	v, _ := f.values[key].([]float64)
	return v
}
