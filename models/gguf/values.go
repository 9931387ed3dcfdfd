package gguf

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Unknown returns what follows the prefix in the keys of the metadata that begin with it, without the known ones and
// those whose value is zero, false or empty.
func (f *File) Unknown(prefix string, known []string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		name, ok := strings.CutPrefix(key, prefix)
		v := f.values[key]
		if ok && !slices.Contains(known, name) && v != nil && !reflect.ValueOf(v).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// String returns a text of the metadata, or "" if there is none.
func (f *File) String(key string) string {
	s, _ := f.values[key].(string)
	return s
}

// Int returns a whole number of the metadata; ok is false if there is none.
func (f *File) Int(key string) (int, bool) {
	switch v := f.values[key].(type) {
	case int64:
		return int(v), true
	case uint64:
		return int(v), v <= math.MaxInt
	}
	return 0, false
}

// Float returns a number of the metadata; ok is false if there is none.
func (f *File) Float(key string) (float64, bool) {
	if v, ok := f.values[key].(float64); ok {
		return v, true
	}
	i, ok := f.Int(key)
	return float64(i), ok
}

// Bool returns a truth value of the metadata; ok is false if there is none.
func (f *File) Bool(key string) (v, ok bool) {
	v, ok = f.values[key].(bool)
	return v, ok
}

// Strings returns an array of texts of the metadata, or nil.
func (f *File) Strings(key string) []string {
	v, _ := f.values[key].([]string)
	return v
}

// Ints returns an array of whole numbers of the metadata, or nil.
func (f *File) Ints(key string) []int64 {
	v, _ := f.values[key].([]int64)
	return v
}

// Floats returns an array of numbers of the metadata, or nil.
func (f *File) Floats(key string) []float64 {
	v, _ := f.values[key].([]float64)
	return v
}
