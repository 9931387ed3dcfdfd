package similar

import (
	"math/rand/v2"
	"testing"
)

// slow is the recursive definition.
func slow(a, b []rune) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a) + len(b)
	case a[0] == b[0]:
		return slow(a[1:], b[1:])
	}
	return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"größe", "grosse", 3}, {"ab", "ba", 2}, {"é", "e", 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() string {
		b := make([]rune, r.IntN(7))
		for i := range b {
			b[i] = []rune("abé")[r.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		a, b := draw(), draw()
		if got, want := Distance(a, b), slow([]rune(a), []rune(b)); got != want || Distance(b, a) != want {
			t.Errorf("%q to %q: %d, want %d", a, b, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"age", "marital_status", "duration", "c1", "Größe"}
	for name, want := range map[string]string{"Age": "age", "agee": "age", "marital status": "marital_status",
		"maritalstatus": "marital_status", "durations": "duration", "größe": "Größe", "c2": "", "income": "", "": ""} {
		if got := Nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
