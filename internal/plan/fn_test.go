package plan

import "testing"

// A function without an entry would be found by the first map that uses it, as a panic.
func TestEveryFunctionHasFacts(t *testing.T) {
	seen := map[string]Fn{}
	for f := range Fns {
		if e := table[f]; e.name == "" || e.features == nil || e.positive == nil || e.eval == nil {
			t.Errorf("function %d has no entry, or half of one: %q", int(f), e.name)
		}
		if other, ok := seen[f.String()]; ok {
			t.Errorf("functions %d and %d are both %q", int(other), int(f), f)
		}
		seen[f.String()] = f
	}
}
