package special

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// refCase is one value of testdata/mpmath.json, computed with mpmath at 60 digits.
type refCase struct {
	Fn   string
	Args []float64
	Want string
	Sign int
	Cond float64
}

func loadReference(t *testing.T) []refCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/mpmath.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []refCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestReference bounds the error of log|f| by tol·max(|log f|, 1)·cond: an absolute
// error of the logarithm is a relative error of the value.
func TestReference(t *testing.T) {
	tol := map[string]float64{
		"besselj": 2e-14, "kummerneg": 1e-14, "kummerpos": 2e-14,
		"hyp0f1": 1e-14, "logi0": 2e-15, "halfratio": 1e-15,
	}
	worst := map[string]float64{}
	for _, c := range loadReference(t) {
		var want float64
		if err := json.Unmarshal([]byte(c.Want), &want); err != nil {
			t.Fatal(err)
		}
		var got float64
		sign := c.Sign
		switch c.Fn {
		case "besselj":
			s := BesselJLog(int(c.Args[0]), c.Args[1])
			got, sign = s.Log, s.Sign
		case "kummerneg":
			s := KummerNegLog(int(c.Args[0]), c.Args[1])
			got, sign = s.Log, s.Sign
		case "kummerpos":
			got = LogKummerPos(int(c.Args[0]), c.Args[1])
		case "hyp0f1":
			got = Hyp0F1Log(c.Args[0], c.Args[1])
		case "logi0":
			got = LogI0(c.Args[0])
		case "halfratio":
			got = LogHalfRatio(c.Args[0])
		default:
			t.Fatalf("unknown function %q", c.Fn)
		}
		size := math.Max(1, math.Abs(want)) * math.Max(1, c.Cond)
		if c.Fn == "kummerpos" || c.Fn == "hyp0f1" || c.Fn == "logi0" {
			size = math.Abs(want) // small logarithms are relatively accurate too
		}
		e := math.Abs(got-want) / size
		worst[c.Fn] = math.Max(worst[c.Fn], e)
		if sign != c.Sign || !(e <= tol[c.Fn]) {
			t.Errorf("%s%v = %d·e^%.17g, want %d·e^%.17g (error %.1e)", c.Fn, c.Args, sign, got, c.Sign, want, e)
		}
	}
	t.Logf("worst relative errors: %v", worst)
}
