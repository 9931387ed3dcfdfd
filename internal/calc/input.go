package calc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/dense"
)

// ErrInput marks inputs that are missing, unknown, of the wrong type or out of range.
var ErrInput = errors.New("bad input")

// Input describes one required key of a formula's inputs.
type Input struct {
	Key  string `json:"key"`
	Type string `json:"type"` // in words
	read func(json.RawMessage) (any, error)
}

// Bounds on integers: beyond them the work, not the formula, is the problem.
const (
	maxCount     = 1 << 30
	maxDimension = 1 << 20
	maxElements  = 1 << 20 // of a result
	maxPasses    = 10000
)

func number(key string) Input { return Input{key, "number", readNumber} }

// nonnegative is a number ≥ 0: squared norms, distances, error levels.
func nonnegative(key string) Input {
	return bounded(key, "number ≥ 0", func(v float64) bool { return v >= 0 })
}

func positive(key string) Input {
	return bounded(key, "number > 0", func(v float64) bool { return v > 0 })
}

func bounded(key, words string, ok func(float64) bool) Input {
	return Input{key, words, func(raw json.RawMessage) (any, error) {
		v, err := readNumber(raw)
		if err == nil && !ok(v.(float64)) {
			err = fmt.Errorf("got %v, want a %s", v, words)
		}
		return v, err
	}}
}

// natural is a count.
func natural(key string) Input { return integer(key, 1, maxCount) }

func dimension(key string) Input { return integer(key, 1, maxDimension) }

func integer(key string, least, most int) Input {
	words := fmt.Sprintf("integer ≥ %d", least)
	return Input{key, words, func(raw json.RawMessage) (any, error) {
		v, err := readNumber(raw)
		if err != nil {
			return nil, err
		}
		f := v.(float64)
		if f != math.Trunc(f) || f < float64(least) || f > float64(most) {
			return nil, fmt.Errorf("got %v, want an %s (at most %d)", f, words, most)
		}
		return int(f), nil
	}}
}

// sign is +1 or -1.
func sign(key string) Input {
	return Input{key, "+1 or -1", func(raw json.RawMessage) (any, error) {
		v, err := readNumber(raw)
		if err != nil {
			return nil, err
		}
		if f := v.(float64); f != 1 && f != -1 {
			return nil, fmt.Errorf("got %v, want +1 or -1", f)
		}
		return int(v.(float64)), nil
	}}
}

func choice(key string, options ...string) Input {
	words := strings.Join(options, " | ")
	return Input{key, words, func(raw json.RawMessage) (any, error) {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil || !slices.Contains(options, s) {
			return nil, fmt.Errorf("got %s, want one of %s", clip(raw), words)
		}
		return s, nil
	}}
}

func flag(key string) Input {
	return Input{key, "true | false", func(raw json.RawMessage) (any, error) {
		switch string(bytes.TrimSpace(raw)) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("got %s, want true or false", clip(raw))
	}}
}

func vector(key string) Input {
	return Input{key, "list of numbers", func(raw json.RawMessage) (any, error) {
		v, err := readNumbers(raw)
		if err == nil && len(v) == 0 {
			err = fmt.Errorf("got an empty list, want numbers")
		}
		return v, err
	}}
}

// optionalVector may be empty: parameters of a formula that has none for some choice.
func optionalVector(key string) Input {
	return Input{key, "list of numbers, may be empty", func(raw json.RawMessage) (any, error) {
		v, err := readNumbers(raw)
		return v, err
	}}
}

func matrix(key string) Input {
	return Input{key, "list of rows", func(raw json.RawMessage) (any, error) { return readMatrix(raw) }}
}

func matrices(key string) Input {
	return Input{key, "list of matrices", func(raw json.RawMessage) (any, error) {
		parts, err := readList(raw)
		if err != nil {
			return nil, err
		}
		out := make([]dense.Matrix[float64], len(parts))
		for i, p := range parts {
			if out[i], err = readMatrix(p); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	}}
}

// complexes is a list of [re, im].
func complexes(key string) Input {
	return Input{key, "list of [re, im]", func(raw json.RawMessage) (any, error) {
		parts, err := readList(raw)
		if err != nil {
			return nil, err
		}
		out := make([]complex128, len(parts))
		for i, p := range parts {
			v, err := readNumbers(p)
			if err != nil || len(v) != 2 {
				return nil, fmt.Errorf("element %d: got %s, want [re, im]", i, clip(p))
			}
			out[i] = complex(v[0], v[1])
		}
		return out, nil
	}}
}

func readNumber(raw json.RawMessage) (any, error) {
	// Unmarshal takes null for "leave unchanged"; a number that is not there must be an error.
	var v *float64
	if err := json.Unmarshal(raw, &v); err != nil || v == nil {
		return nil, fmt.Errorf("got %s, want a finite number", clip(raw))
	}
	return *v, nil
}

func readNumbers(raw json.RawMessage) ([]float64, error) {
	parts, err := readList(raw)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(parts))
	for i, p := range parts {
		v, err := readNumber(p)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = v.(float64)
	}
	return out, nil
}

func readList(raw json.RawMessage) ([]json.RawMessage, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || parts == nil {
		return nil, fmt.Errorf("got %s, want a list", clip(raw))
	}
	return parts, nil
}

func readMatrix(raw json.RawMessage) (dense.Matrix[float64], error) {
	parts, err := readList(raw)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	rows := make([][]float64, len(parts))
	for i, p := range parts {
		if rows[i], err = readNumbers(p); err != nil {
			return dense.Matrix[float64]{}, fmt.Errorf("row %d: %w", i, err)
		}
	}
	m, err := dense.FromRows(rows)
	if err == nil && m.IsEmpty() {
		err = fmt.Errorf("got an empty matrix, want numbers")
	}
	return m, err
}

// clip shortens JSON for an error message.
func clip(raw json.RawMessage) string {
	if len(raw) > 40 {
		return string(raw[:37]) + "..."
	}
	return string(raw)
}

// values are decoded inputs. The accessors name the declared type; asking for another is a bug of the entry.
type values map[string]any

func (v values) f(key string) float64                    { return v[key].(float64) }
func (v values) i(key string) int                        { return v[key].(int) }
func (v values) s(key string) string                     { return v[key].(string) }
func (v values) b(key string) bool                       { return v[key].(bool) }
func (v values) vec(key string) []float64                { return v[key].([]float64) }
func (v values) mat(key string) dense.Matrix[float64]    { return v[key].(dense.Matrix[float64]) }
func (v values) mats(key string) []dense.Matrix[float64] { return v[key].([]dense.Matrix[float64]) }
func (v values) cvec(key string) []complex128            { return v[key].([]complex128) }

// decode reads exactly the declared keys: a missing, unknown, repeated or mistyped one is an error that names it.
func decode(inputs []Input, raw json.RawMessage) (values, error) {
	given, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w: %w", err, ErrInput)
	}
	out := values{}
	for _, in := range inputs {
		part, ok := given[in.Key]
		if !ok {
			return nil, fmt.Errorf("inputs lack %q (%s): %w", in.Key, in.Type, ErrInput)
		}
		v, err := in.read(part)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w: %w", in.Key, err, ErrInput)
		}
		out[in.Key] = v
		delete(given, in.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		return nil, fmt.Errorf("unknown input %q, want %s: %w", key, keyList(inputs), ErrInput)
	}
	return out, nil
}

func keyList(inputs []Input) string {
	names := make([]string, len(inputs))
	for i, in := range inputs {
		names[i] = in.Key
	}
	return strings.Join(names, ", ")
}

// readObject is json.Unmarshal into a map, except that a repeated key is an error.
func readObject(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("missing")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("got %s, want an object", clip(raw))
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // the decoder accepts nothing else here
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%q appears twice", key)
		}
		var part json.RawMessage
		if err := dec.Decode(&part); err != nil {
			return nil, err
		}
		out[key] = part
	}
	return out, nil
}

// checkLengths reports vectors, or rows of matrices, that do not have the same number of coordinates.
func checkLengths(in values, keys ...string) error {
	length := func(key string) int {
		switch v := in[key].(type) {
		case []float64:
			return len(v)
		case []complex128:
			return len(v)
		case dense.Matrix[float64]:
			return v.Cols
		}
		panic("calc: " + key + " has no length")
	}
	for _, key := range keys[1:] {
		if a, b := length(keys[0]), length(key); a != b {
			return fmt.Errorf("input %q has %d coordinates, %q has %d: %w", key, b, keys[0], a, ErrInput)
		}
	}
	return nil
}

// checkSquare reports a matrix that is not n×n.
func checkSquare(in values, key string, n int) error {
	if m := in.mat(key); m.Rows != n || m.Cols != n {
		return fmt.Errorf("input %q: got %d×%d, want %d×%d: %w", key, m.Rows, m.Cols, n, n, ErrInput)
	}
	return nil
}

// outOfRange is the error for a value its own type allows but the formula does not.
func outOfRange(key string, v any, want string) error {
	return fmt.Errorf("input %q: got %v, want %s: %w", key, v, want, ErrInput)
}
