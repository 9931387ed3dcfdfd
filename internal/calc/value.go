package calc

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/randfeat/randfeat/dense"
)

// Object is a result with named parts, in a fixed order.
type Object []Field

// Field is one part of an [Object].
type Field struct {
	Key   string
	Value any
}

// Get finds a part by name.
func (o Object) Get(key string) (any, bool) {
	for _, f := range o {
		if f.Key == key {
			return f.Value, true
		}
	}
	return nil, false
}

// generic reduces what formulas return to float64, []any and Object.
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

// Encode writes a result as JSON. Infinities, which JSON lacks, are "inf" and "-inf"; undefined values are null.
// Numbers are the shortest that read back to the same double.
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
