package cell

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

var texts = []string{"", "a", " a", "a\t", `a"b`, "a,b", "a;b", "a\nb", "\ufeffa", "é", "<b>&", "\x00", "\xff", `\`,
	"a b"}

func TestText(t *testing.T) {
	for _, s := range texts {
		var back string
		if b := AppendJSON(nil, []byte(s)); json.Unmarshal(b, &back) != nil ||
			back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("%q is %s", s, b)
		}
		if want, _ := json.Marshal(s); string(AppendJSON(nil, []byte(s))) != string(want) {
			t.Errorf("%q is not as encoding/json has it", s)
		}
		for _, delim := range []byte{',', ';', '\t'} {
			line := append(AppendCSV([]byte{'x', delim}, []byte(s), delim, false), '\n')
			r := csv.NewReader(strings.NewReader(string(line)))
			r.Comma = rune(delim)
			if got, err := r.Read(); err != nil || len(got) != 2 || got[1] != s {
				t.Errorf("%q with %q: %q, %v", s, delim, got, err)
			}
		}
	}
	if got := string(AppendCSV(nil, nil, ',', true)) + string(AppendJSON(nil, nil)); got != `""null` {
		t.Errorf("nothing is %s", got)
	}
	for s, want := range map[string]string{" a": `" a"`, "a,b": `"a,b"`, "a;b": "a;b", `a"b`: `"a""b"`,
		"\ufeff": "\"\ufeff\"", "a b": "a b"} {
		if got := string(AppendCSV(nil, []byte(s), ',', false)); got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		v := math.Float64frombits(r.Uint64())
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		b := AppendNumber(nil, v)
		if back, err := strconv.ParseFloat(string(b), 64); err != nil || back != v || !json.Valid(b) {
			t.Errorf("%v is %s", v, b)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 1e-5: "0.00001", 1e-6: "1e-06", 1e14: "100000000000000",
		1e15: "1e+15", -3: "-3"} {
		if got := string(AppendNumber(nil, v)); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
