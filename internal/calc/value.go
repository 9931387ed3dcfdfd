package calc

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/randfeat/randfeat/dense"
)

// Object is a result with named parts. Their order is fixed, so that the encoding of a result is always the same.
type Object []Field

// Field is one part of an [Object].
type Field struct {
	Key   string
	Value any
}

// Get returns the part with the given key, if there is one.
func (o Object) Get(key string) (any, bool) {
	for _, f := range o {
		if f.Key == key {
			return f.Value, true
		}
	}
	return nil, false
}

// generic reduces the types that formulas return to float64, []any and Object, with complex numbers as [re, im].
func generic(v any) any {
	switch v := v.(type) {
	case float64:
		return v
	case int:
		return float64(v)
	case complex128:
		return []any{real(v), imag(v)}
	case []float64:
		return genericList(v)
	case []complex128:
		return genericList(v)
	case [][]float64:
		return genericList(v)
	case dense.Matrix[float64]:
		return genericList(v.ToRows())
	case Object:
		out := make(Object, len(v))
		for i, f := range v {
			out[i] = Field{f.Key, generic(f.Value)}
		}
		return out
	}
	panic(fmt.Sprintf("calc: a formula returned a %T", v))
}

func genericList[E any](v []E) any {
	out := make([]any, len(v))
	for i, e := range v {
		out[i] = generic(e)
	}
	return out
}

// Encode writes a result of [Entry.Eval] as JSON. Infinities, which JSON lacks, become "inf" and "-inf", and NaN
// becomes null. Numbers have the fewest digits that read back as the same float64.
func Encode(v any) json.RawMessage { return appendValue(nil, v) }

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case float64:
		switch {
		case math.IsInf(v, 1):
			return append(b, `"inf"`...)
		case math.IsInf(v, -1):
			return append(b, `"-inf"`...)
		case math.IsNaN(v):
			return append(b, "null"...)
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, e)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendQuote(b, f.Key), ':')
			b = appendValue(b, f.Value)
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("calc: %T is no result", v))
}
