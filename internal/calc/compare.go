package calc

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Miss is the error of [Compare]: the first number of a result that differs from the expected one.
type Miss struct {
	Path      string // place in the result, such as ".omega[2]"; empty for a plain number
	Got, Want string
	Deviation float64 // |got − want|; NaN if the two are not both numbers
	Allowed   float64 // rtol·|want| + atol
}

func (m *Miss) Error() string {
	at := ""
	if m.Path != "" {
		at = m.Path + ": "
	}
	if math.IsNaN(m.Deviation) {
		return fmt.Sprintf("%sgot %s, want %s", at, m.Got, m.Want)
	}
	return fmt.Sprintf("%sgot %s, want %s: off by %.3g, allowed %.3g", at, m.Got, m.Want, m.Deviation, m.Allowed)
}

// Compare checks a result of [Entry.Eval] against an expected JSON value. Every number must satisfy |got − want| ≤
// rtol·|want| + atol; lists must have the same length and order; "inf" and "-inf" must match exactly; null matches
// anything, and so do parts of an object that expected does not mention. Compare returns nil, a *[Miss], or another
// error if expected is not such a value.
func Compare(got any, expected json.RawMessage, rtol, atol float64) error {
	var want any
	if err := json.Unmarshal(expected, &want); err != nil {
		return fmt.Errorf("expected value: %w", err)
	}
	return compare("", got, want, rtol, atol)
}

func compare(path string, got, want any, rtol, atol float64) error {
	miss := func(deviation, allowed float64) error {
		w, _ := json.Marshal(want) // want came from JSON
		return &Miss{Path: path, Got: string(Encode(got)), Want: string(w), Deviation: deviation, Allowed: allowed}
	}
	switch want := want.(type) {
	case nil:
		return nil
	case float64:
		g, ok := got.(float64)
		if !ok {
			return miss(math.NaN(), 0)
		}
		deviation, allowed := math.Abs(g-want), rtol*math.Abs(want)+atol
		if !(deviation <= allowed) { // negated, so that a NaN misses
			return miss(deviation, allowed)
		}
		return nil
	case string:
		inf, ok := map[string]int{"inf": 1, "-inf": -1}[want]
		if !ok {
			return fmt.Errorf("expected value %s%q: want a number, a list, an object, null, \"inf\" or \"-inf\"", at(path), want)
		}
		if g, ok := got.(float64); !ok || !math.IsInf(g, inf) {
			return miss(math.NaN(), 0)
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return miss(math.NaN(), 0)
		}
		for i, w := range want {
			if err := compare(path+"["+strconv.Itoa(i)+"]", g[i], w, rtol, atol); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		g, ok := got.(Object)
		if !ok {
			return miss(math.NaN(), 0)
		}
		// In the order of the result, so that the first miss is always the same.
		matched := 0
		for _, f := range g {
			w, ok := want[f.Key]
			if !ok {
				continue
			}
			matched++
			if err := compare(path+"."+f.Key, f.Value, w, rtol, atol); err != nil {
				return err
			}
		}
		if matched != len(want) {
			return miss(math.NaN(), 0)
		}
		return nil
	}
	return fmt.Errorf("expected value %s%v: want a number, a list, an object, null, \"inf\" or \"-inf\"", at(path), want)
}

func at(path string) string {
	if path == "" {
		return ""
	}
	return "at " + path + " "
}
