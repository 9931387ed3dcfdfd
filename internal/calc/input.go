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

// ErrInput is wrapped by errors about inputs that are missing, unknown, of the wrong type or out of range.
var ErrInput = errors.New("bad input")

// Input describes one key of a formula's inputs.
type Input struct {
	Key  string `json:"key"`
	Type string `json:"type"` // for people, such as "integer ≥ 1"
	read func(json.RawMessage) (any, error)
}

// Bounds on integers. The formulas hold beyond them, but a request must not occupy the machine.
const (
	maxCount     = 1 << 30
	maxDimension = 1 << 20
	maxElements  = 1 << 20 // numbers in a result
	maxPasses    = 10000
)

// number declares a finite number; JSON has no other.
func number(key string) Input { return Input{key, "number", readNumber} }

// nonnegative declares a number ≥ 0: a squared norm, a distance, an error level.
func nonnegative(key string) Input {
	return bounded(key, "number ≥ 0", func(v float64) bool { return v >= 0 })
}

// positive declares a number > 0.
func positive(key string) Input {
	return bounded(key, "number > 0", func(v float64) bool { return v > 0 })
}

// bounded declares a number that satisfies ok, which words describe.
func bounded(key, words string, ok func(float64) bool) Input {
	return Input{key, words, func(raw json.RawMessage) (any, error) {
		v, err := readNumber(raw)
		if err == nil && !ok(v.(float64)) {
			err = fmt.Errorf("got %v, want a %s", v, words)
		}
		return v, err
	}}
}

// natural declares a count from 1.
func natural(key string) Input { return integer(key, 1, maxCount) }

// dimension declares the length of a vector. Its bound is lower than that of a count because formulas allocate and loop
// by it.
func dimension(key string) Input { return integer(key, 1, maxDimension) }

// integer declares an integer from least to most. It is decoded as a number, so 3.0 and 3e0 are integers too.
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

// sign declares +1 or −1.
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

// choice declares one of the given strings.
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

// flag declares true or false.
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

// vector declares a list of at least one number.
func vector(key string) Input {
	return Input{key, "list of numbers", func(raw json.RawMessage) (any, error) {
		v, err := readNumbers(raw)
		if err == nil && len(v) == 0 {
			err = fmt.Errorf("got an empty list, want numbers")
		}
		return v, err
	}}
}

// optionalVector declares a list that may be empty: the parameters of a formula that has none for some choices.
func optionalVector(key string) Input {
	return Input{key, "list of numbers, may be empty", func(raw json.RawMessage) (any, error) {
		v, err := readNumbers(raw)
		return v, err
	}}
}

// matrix declares a list of at least one row, all of the same positive length.
func matrix(key string) Input {
	return Input{key, "list of rows", func(raw json.RawMessage) (any, error) { return readMatrix(raw) }}
}

// matrices declares a list of matrices, which may be empty and whose shapes may differ.
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

// complexes declares a list of pairs [re, im].
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
	// Unmarshal takes null as "leave unchanged"; through a pointer it becomes nil, which is an error here.
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

// values holds decoded inputs by key. The accessors assert the declared type: a panic there is a bug of the entry,
// never of the inputs.
type values map[string]any

func (v values) f(key string) float64                    { return v[key].(float64) }
func (v values) i(key string) int                        { return v[key].(int) }
func (v values) s(key string) string                     { return v[key].(string) }
func (v values) b(key string) bool                       { return v[key].(bool) }
func (v values) vec(key string) []float64                { return v[key].([]float64) }
func (v values) mat(key string) dense.Matrix[float64]    { return v[key].(dense.Matrix[float64]) }
func (v values) mats(key string) []dense.Matrix[float64] { return v[key].([]dense.Matrix[float64]) }
func (v values) cvec(key string) []complex128            { return v[key].([]complex128) }

// decode reads exactly the declared keys: a missing, unknown, repeated or mistyped key is an error that names it and
// wraps [ErrInput].
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

// readObject is json.Unmarshal into a map, except that a repeated key is an error: Unmarshal would keep the last value
// and hide the mistake.
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

// checkLengths returns an error unless the vectors, or the rows of the matrices, under these keys have the same number
// of coordinates.
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

// checkSquare returns an error unless the matrix is n×n.
func checkSquare(in values, key string, n int) error {
	if m := in.mat(key); m.Rows != n || m.Cols != n {
		return fmt.Errorf("input %q: got %d×%d, want %d×%d: %w", key, m.Rows, m.Cols, n, n, ErrInput)
	}
	return nil
}

// outOfRange is the error for a value that its type allows but the formula does not.
func outOfRange(key string, v any, want string) error {
	return fmt.Errorf("input %q: got %v, want %s: %w", key, v, want, ErrInput)
}
